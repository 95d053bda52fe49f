"""The delay line's control socket may lie in any folder."""

import socket
import sys
from pathlib import Path

import pytest
from fognetem.control import short_name

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="names sockets through /proc")


def test_a_socket_is_made_and_reached_where_its_own_name_is_too_long(tmp_path: Path) -> None:
    folder = tmp_path / ("deep" * 30)
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as plain, pytest.raises(OSError, match="too long"):
        plain.bind(str(folder / "a.sock"))
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        with short_name(folder / "a.sock") as name:
            server.bind(name)
        server.listen()
        with short_name(folder / "a.sock") as name:
            client.connect(name)
        accepted, _ = server.accept()
        with accepted:
            client.sendall(b"hello")
            assert accepted.recv(5) == b"hello"
