"""The kafka: section of testbed.yaml: what it means, and the sentence for each way it can be wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from fogctl.config import testbed
from fogctl.errors import FogError
from fogctl.testbed import state
from fogctl.testbed.model import ExternalKafka, KafkaSasl, KafkaTls, Testbed

NODES = "name: x\nkind: sim\nnodes: [{name: cloud, role: control, board: host}]\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\n")
    (tmp_path / "fog.pem").write_text("-----BEGIN CERTIFICATE-----\n")
    for name, text in {"fog.key": "-----BEGIN PRIVATE KEY-----\n", "password": "secret\n"}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o600)
    return tmp_path


def load(folder: Path, section: str) -> Testbed:
    file = folder / "testbed.yaml"
    file.write_text(f"{NODES}kafka: {section}\n")
    return testbed.load(file)


def sentence(folder: Path, section: str) -> str:
    with pytest.raises(FogError) as caught:
        load(folder, section)
    text = str(caught.value)
    assert "\n" not in text
    return text.removeprefix(f"{folder}/testbed.yaml:4: ")


def test_files_are_relative_to_the_testbed_and_survive_the_record(folder: Path) -> None:
    made = load(
        folder,
        "{servers: [a.example:9093, '10.77.0.2:9092'], tls: {ca: ca.pem, cert: fog.pem, key: fog.key}, "
        "sasl: {mechanism: SCRAM-SHA-256, username: fog, password_file: password}}",
    )
    assert made.kafka == ExternalKafka(
        ("a.example:9093", "10.77.0.2:9092"),
        KafkaTls(f"{folder}/ca.pem", f"{folder}/fog.pem", f"{folder}/fog.key"),
        KafkaSasl("SCRAM-SHA-256", "fog", f"{folder}/password"),
    )
    record = state.Record(made, made.latencies, None)
    assert state.from_json(state.to_json(record)) == record
    assert "secret" not in str(state.to_json(record))


def test_without_the_section_the_broker_is_the_testbeds_own(folder: Path) -> None:
    (folder / "testbed.yaml").write_text(NODES)
    made = testbed.load(folder / "testbed.yaml")
    assert made.kafka is None
    record = state.Record(made, made.latencies, None)
    older = {key: value for key, value in state.to_json(record).items() if key != "kafka"}
    assert state.from_json(older) == record


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ("{servers: [a:1], server: [b:1]}", 'kafka.server: unknown key "server" (did you mean "servers"?'),
        (
            "{servers: [a:1], sasl: {username: x, user: x, password_file: password}}",
            'unknown key "user" (did you mean',
        ),
        ("{servers: [a:1], tls: {caa: ca.pem}}", 'unknown key "caa" (did you mean "ca"?'),
        ("{servers: []}", "kafka.servers: has too few items"),
        ("{servers: [kafka.example]}", '"kafka.example" is not HOST:PORT'),
        ("{servers: ['a:70000']}", '"a:70000" is not HOST:PORT'),
        ("{servers: [a:1], tls: {cert: fog.pem}}", "a certificate needs its key"),
        ("{servers: [a:1], tls: {ca: none.pem}}", "none.pem cannot be read: No such file"),
        (
            "{servers: [a:1], sasl: {mechanism: SCRAM, username: x, password_file: password}}",
            '"SCRAM" is not possible here (possible: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512)',
        ),
        (
            "{servers: [a:1], tls: {cert: fog.pem, key: fog.pem}}",
            "others can read",
        ),
    ],
)
def test_what_is_wrong_is_one_sentence(folder: Path, section: str, said: str) -> None:
    (folder / "fog.pem").chmod(0o644)
    found = sentence(folder, section)
    assert said in found, found


def test_a_password_that_others_can_read_is_refused(folder: Path) -> None:
    (folder / "password").chmod(0o640)
    found = sentence(folder, "{servers: [a:1], sasl: {username: x, password_file: password}}")
    assert found.endswith(f"others can read {folder}/password (chmod 600 {folder}/password)")


def test_a_key_that_java_cannot_read_is_refused(folder: Path) -> None:
    (folder / "fog.key").write_text("-----BEGIN RSA PRIVATE KEY-----\n")
    found = sentence(folder, "{servers: [a:1], tls: {cert: fog.pem, key: fog.key}}")
    assert "kafka.tls.key: is not a plain PKCS#8 key (openssl pkcs8 -topk8" in found
