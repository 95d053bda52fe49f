"""What goes to the kernel, byte by byte: netem and NFQUEUE messages, and the firewall rule."""

import struct

import pytest
from fognetem import NetemError, Path, nfqueue
from fognetem.kernel import ROOT, address_key, netem_arguments, netem_message
from fognetem.rules import queue_rule
from hypothesis import given
from netem_values import paths


def decoded(path: Path):
    from pyroute2.netlink.rtnl.tcmsg import tcmsg

    message = netem_message(7, 3, path)
    message.encode()
    again = tcmsg(message.data)
    again.decode()
    return again


def test_netem_message_names_interface_class_and_kind() -> None:
    message = decoded(Path(80))
    assert (message["index"], message["parent"], message["handle"]) == (7, ROOT | 3, 0x6003 << 16)
    assert message.get_attr("TCA_KIND") == "netem"
    assert message["header"]["type"] == 36  # RTM_NEWQDISC


def test_half_of_rtt_and_jitter_goes_on_each_direction() -> None:
    from pyroute2.netlink.rtnl.tcmsg.common import tick_in_usec

    options = decoded(Path(80, 8, 0.25)).get_attr("TCA_OPTIONS")
    assert options["delay"] == round(40_000 * tick_in_usec)
    assert options["jitter"] == round(4_000 * tick_in_usec)
    assert options["loss"] == pytest.approx(0.25 * 2**32, rel=1e-6)


def test_rate_is_in_bytes_and_its_buffer_follows_it() -> None:
    options = decoded(Path(20, rate_bit_s=8e6)).get_attr("TCA_OPTIONS")
    assert options.get_attr("TCA_NETEM_RATE")["rate"] == 1_000_000
    assert 1_000_000 * 0.2 / 1514 < options["limit"] < 1_000_000 * 0.5 / 1514
    assert decoded(Path(20)).get_attr("TCA_OPTIONS")["limit"] == 1_000_000


@given(paths())
def test_order_is_kept_by_a_rate_unless_reordering_is_asked_for(path: Path) -> None:
    rate = decoded(path).get_attr("TCA_OPTIONS").get_attr("TCA_NETEM_RATE")["rate"]
    assert (rate == 0) == (path.reorder and path.rate_bit_s is None)


def test_a_delay_that_does_not_fit_the_kernels_field_is_refused() -> None:
    with pytest.raises(NetemError, match="cannot delay"):
        netem_arguments(Path(3_000_000))


def test_filter_matches_the_whole_destination_address() -> None:
    assert address_key("10.77.0.2") == "0x0a4d0002/0xffffffff+16"


def test_the_rule_has_no_bypass_so_a_dead_delay_line_stops_traffic() -> None:
    rule = queue_rule("-A", "data0")
    assert "--queue-bypass" not in rule
    assert rule[rule.index("-i") + 1] == "data0"


def test_queue_flags_never_contain_fail_open() -> None:
    for flags in (0, nfqueue.F_GSO):
        message = nfqueue.flags_messages(5, flags)
        length, kind, *_ = struct.unpack_from("=IHHII", message)
        assert length == len(message)
        assert kind == (3 << 8) | 2
        assert struct.unpack_from(">H", message, 18)[0] == 5
        assert struct.unpack_from(">I", message, 24)[0] == flags
        mask = struct.unpack_from(">I", message, 32)[0]
        assert mask & nfqueue.F_FAIL_OPEN
        assert not flags & nfqueue.F_FAIL_OPEN


def test_a_verdict_is_one_whole_message_of_32_bytes() -> None:
    message = nfqueue.ACCEPT + b"\x00\x07" + nfqueue.ACCEPTED + b"\x00\x00\x01\x02"
    length, kind, flags, _, _ = struct.unpack_from("=IHHII", message)
    assert length == len(message) == 32
    assert kind == (3 << 8) | 1
    assert flags == 1
    assert struct.unpack_from(">H", message, 18)[0] == 7
    assert struct.unpack_from(">II", message, 24) == (1, 0x0102)
