"""One MQTT 5 connection inside an event loop of ours: kept up, read and written without threads.

Everything happens in the caller's thread, so an acknowledgement cannot slip onto the next connection.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from fogctl.mqtt.mosquitto import PORT

KEEPALIVE_S = 20
RETRY_S = 0.25
FOREVER = 0xFFFFFFFF
"""A session that never expires."""
_CONNECT_PATIENCE_S = 3.0
_PACKETS_A_TURN = 500


class Link:
    """A connection to Mosquitto that is made again whenever it breaks."""

    def __init__(
        self,
        address: str,
        user: str,
        password: str,
        *,
        keep_session: bool = False,
        receive_maximum: int | None = None,
        on_up: Callable[[bool], None],
        on_down: Callable[[str], None] = lambda _: None,
        on_refused: Callable[[str], None] = lambda _: None,
    ) -> None:
        """The user's name is the client's too. `on_up` hears whether the old session is still there."""
        self.client = Client(
            CallbackAPIVersion.VERSION2,
            client_id=user,
            protocol=MQTTProtocolVersion.MQTTv5,
            manual_ack=keep_session,
        )
        self.client.username_pw_set(user, password)
        self.client.connect_timeout = _CONNECT_PATIENCE_S
        self.client.max_inflight_messages_set(0)
        self.client.on_connect = self._connected
        self.client.on_disconnect = self._disconnected
        self.client.on_message = self._received
        asked = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        if keep_session:
            asked.SessionExpiryInterval = FOREVER
        if receive_maximum is not None:
            asked.ReceiveMaximum = receive_maximum
        self.client.connect_async(address, PORT, KEEPALIVE_S, clean_start=not keep_session, properties=asked)
        self.up = False
        self.inbox: list[MQTTMessage] = []
        self._on_up, self._on_down, self._on_refused = on_up, on_down, on_refused
        self._next_try_s = 0.0

    @property
    def socket(self) -> socket.socket | None:
        """What to wait on; None while there is no connection."""
        found: Any = self.client.socket()
        return found if isinstance(found, socket.socket) else None

    def tend(self, now_s: float) -> None:
        """Connect if there is no connection and it is time to; keep alive one that stands."""
        if self.socket is not None:
            self.client.loop_misc()
        elif now_s >= self._next_try_s:
            self._next_try_s = now_s + RETRY_S
            try:
                self.client.reconnect()
            except OSError:
                return

    def read(self) -> list[MQTTMessage]:
        """Read what has arrived, up to a few hundred packets; answers the messages among it."""
        for _ in range(_PACKETS_A_TURN):
            before = len(self.inbox)
            self.client.loop_read()
            if len(self.inbox) == before:
                break
        taken, self.inbox = self.inbox, []
        return taken

    def write(self) -> None:
        """Write what waits to be written."""
        if self.client.want_write():
            self.client.loop_write()

    def close(self) -> None:
        """Say goodbye; the session stays if it was to be kept."""
        self.client.disconnect()
        self.write()

    def _connected(
        self, _client: Client, _data: Any, flags: ConnectFlags, reason: ReasonCode, _properties: Any
    ) -> None:
        if reason.is_failure:
            self._on_refused(str(reason))
            return
        self.up = True
        self._on_up(flags.session_present)

    def _disconnected(
        self, _client: Client, _data: Any, _flags: DisconnectFlags, reason: ReasonCode, _properties: Any
    ) -> None:
        if self.up:
            self.up = False
            self._on_down(str(reason))

    def _received(self, _client: Client, _data: Any, message: MQTTMessage) -> None:
        self.inbox.append(message)
