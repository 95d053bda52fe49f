"""One connection as the settings of three clients; no secret where it could be seen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fogctl.errors import FogError
from fogctl.runtime.kafka import check_partitions
from fogctl.runtime.kafka_config import KafkaConnection, Security, secret
from fogctl.testbed.model import KafkaSasl, KafkaTls


@pytest.fixture
def secured(tmp_path: Path) -> KafkaConnection:
    for name, text in {"ca": "the ca", "cert": "the cert", "key": "the key", "password": 'pa"s\\s'}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o600)
    tls = KafkaTls(*(str(tmp_path / name) for name in ("ca", "cert", "key")))
    sasl = KafkaSasl("SCRAM-SHA-512", "fog", str(tmp_path / "password"))
    return KafkaConnection("a:1,b:2", Security(tls, sasl))


def test_a_plain_connection_says_nothing_but_where() -> None:
    plain = KafkaConnection("a:1")
    said = plain.for_kafka_python()
    assert (said["bootstrap_servers"], said["security_protocol"]) == (["a:1"], "PLAINTEXT")
    assert not [key for key in said if key.startswith(("ssl", "sasl"))]
    assert plain.for_spark() == {
        "kafka.bootstrap.servers": "a:1",
        "kafka.security.protocol": "PLAINTEXT",
    }
    assert plain.for_librdkafka() == {"bootstrap.servers": "a:1", "security.protocol": "PLAINTEXT"}


def test_every_client_gets_certificates_and_password(secured: KafkaConnection, tmp_path: Path) -> None:
    python = secured.for_kafka_python()
    assert python["security_protocol"] == "SASL_SSL"
    assert (python["ssl_keyfile"], python["sasl_plain_password"]) == (str(tmp_path / "key"), 'pa"s\\s')
    spark = secured.for_spark()
    assert spark["kafka.ssl.truststore.certificates"] == "the ca"
    assert spark["kafka.ssl.keystore.key"] == "the key"
    assert spark["kafka.sasl.jaas.config"].endswith('username="fog" password="pa\\"s\\\\s";')
    rdkafka = secured.for_librdkafka()
    assert rdkafka["ssl.ca.location"] == str(tmp_path / "ca")
    assert rdkafka["sasl.password"] == 'pa"s\\s'


@pytest.mark.parametrize(
    ("tls", "sasl", "protocol"),
    [(False, False, "PLAINTEXT"), (True, False, "SSL"), (False, True, "SASL_PLAINTEXT")],
)
def test_the_protocol_is_what_is_asked_for(tls: bool, sasl: bool, protocol: str) -> None:
    made = Security(KafkaTls() if tls else None, KafkaSasl("PLAIN", "x", "y") if sasl else None)
    assert made.protocol == protocol


def test_what_is_written_down_holds_no_secret(secured: KafkaConnection) -> None:
    written = json.dumps(secured.to_json())
    assert "pa" + '\\"s' not in written
    assert "the key" not in written
    assert repr(secured).find("the key") == -1
    assert KafkaConnection.from_json(json.loads(written)) == secured


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        ("x", 0o644, "others can read this password"),
        ("x", 0o640, "others can read this password"),
        ("", 0o600, "holds no password"),
    ],
)
def test_a_bad_password_file_is_refused(tmp_path: Path, text: str, mode: int, said: str) -> None:
    file = tmp_path / "password"
    file.write_text(text)
    file.chmod(mode)
    with pytest.raises(FogError, match=said):
        secret(str(file))


def test_a_topic_with_other_partitions_is_refused_with_both_ways_out() -> None:
    check_partitions("taxi.rides", 8, 8)
    with pytest.raises(FogError) as caught:
        check_partitions("taxi.rides", 4, 8)
    assert str(caught.value) == (
        "topic taxi.rides has 4 partitions, but the app asks for 8 "
        "(say partitions: 4 in its app.yaml; to start anew, deploy it so, then: fogctl app rm taxi)"
    )
