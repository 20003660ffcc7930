"""TLS and log-in options, variables and profiles of the command line, on a broker that wants to know who is there."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("cryptography")

from tests.conformance.conftest import ON_KAFKA
from tests.conformance.pseudo_terminal import PseudoTerminal
from tests.conformance.secured import PASSWORD, SecuredBroker, acl
from tests.unit.cli.commands import TIDELOG, execute, invoke
from tidelog import Admin

pytestmark = pytest.mark.skipif(ON_KAFKA, reason="the broker's settings are those of tidelog serve")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    started = SecuredBroker(tmp_path_factory.mktemp("secured"), {})
    started.start()
    with Admin(bootstrap_servers=started.bootstrap) as admin:
        admin.alter_user_scram_credentials({"ann": PASSWORD}, mechanism="SCRAM-SHA-512")
        admin.create_acls(
            acl("User:ann", operation, "topic", "ann-", prefixed=True)
            for operation in ("write", "read", "create")
        )
    yield started
    started.stop()


@pytest.fixture(autouse=True)
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TIDELOG_PROFILES", str(tmp_path / "home" / "profiles.json"))
    return tmp_path / "home" / "profiles.json"


@pytest.fixture
def password_file(tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.write_text(PASSWORD + "\n")
    return path


def said(*words: str) -> str:
    shown = invoke(*words)
    assert shown.exit_code == 0, shown.output
    return shown.stdout


def options_for(broker: SecuredBroker, password_file: Path) -> tuple[str, ...]:
    return (
        *("--bootstrap", broker.at("BOTH"), "--tls-ca", str(broker.home / "ca.pem")),
        *("--sasl-user", "ann", "--sasl-password-file", str(password_file)),
    )


def test_options_log_in_over_tls(broker: SecuredBroker, password_file: Path) -> None:
    options = options_for(broker, password_file)
    assert "created ann-a" in said("topics", "create", "ann-a", *options)
    assert execute("produce", "ann-a", *options, input=b"3 figs\n").returncode == 0
    assert said("consume", "ann-a", "--from", "beginning", *options) == "3 figs\n"
    wrong = invoke("topics", "list", *options, "--sasl-mechanism", "SCRAM-SHA-256")
    assert wrong.exit_code == 1 and "authenticat" in wrong.stderr.lower()


def test_a_client_certificate_is_shown(broker: SecuredBroker) -> None:
    client = ("--tls-cert", str(broker.home / "client.pem"), "--tls-key", str(broker.home / "client.key"))
    address = ("--bootstrap", broker.at("MUTUAL"), "--tls-ca", str(broker.home / "ca.pem"))
    assert "created ann-b" in said("topics", "create", "ann-b", *address, *client)
    refused = invoke("topics", "list", *address)
    assert refused.exit_code == 1 and "Traceback" not in refused.output


def test_options_count_above_the_file(broker: SecuredBroker, password_file: Path, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
        'sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="x" password="y";\n'
        f"ssl.truststore.location={broker.home / 'ca.pem'}\n"
    )
    address = ("--bootstrap", broker.at("BOTH"), "--command-config", str(file))
    assert invoke("topics", "list", *address).exit_code == 1
    said("topics", "list", *address, "--sasl-user", "ann", "--sasl-password-file", str(password_file))


def test_variables_stand_for_the_options(
    broker: SecuredBroker, password_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELOG_BOOTSTRAP", broker.at("BOTH"))
    monkeypatch.setenv("TIDELOG_TLS_CA", str(broker.home / "ca.pem"))
    monkeypatch.setenv("TIDELOG_SASL_USER", "ann")
    monkeypatch.setenv("TIDELOG_SASL_PASSWORD", PASSWORD)
    monkeypatch.setenv("TIDELOG_JSON", "1")
    monkeypatch.setenv("TIDELOG_TOPICS_CREATE_PARTITIONS", "3")
    said("topics", "create", "ann-c")
    assert {topic["name"]: topic["partitions"] for topic in json.loads(said("topics", "list"))}["ann-c"] == 3


def test_a_profile_is_what_the_options_were(
    broker: SecuredBroker, password_file: Path, profiles: Path
) -> None:
    made = said("profile", "create", "work", *options_for(broker, password_file), "--timeout", "20")
    assert made == "created work; use it with: tidelog profile use work\n"
    assert stat.S_IMODE(profiles.stat().st_mode) == 0o600
    password_file.unlink()
    said("topics", "create", "ann-d", "--profile", "work")
    said("profile", "use", "work")
    assert "ann-d" in said("topics", "list")
    shown = json.loads(said("profile", "show", "--json"))
    assert (shown["name"], shown["in_use"], shown["password"]) == ("work", True, True)
    assert shown["options"]["sasl-user"] == "ann" and shown["options"]["timeout"] == 20
    everything = said("profile", "show") + said("profile", "list") + said("profile", "list", "--json")
    assert PASSWORD not in everything


def test_the_profile_in_use_does_not_follow_to_another_cluster(
    broker: SecuredBroker, password_file: Path
) -> None:
    said("profile", "create", "work", *options_for(broker, password_file), "--use")
    # The listener PLAIN knows no log-in: a client that tried would fail.
    said("topics", "list", "--bootstrap", broker.bootstrap)
    assert invoke("topics", "list", "--bootstrap", broker.bootstrap, "--profile", "work").exit_code == 1


def test_a_password_is_asked_for_on_a_terminal(broker: SecuredBroker, profiles: Path) -> None:
    words = ["--bootstrap", broker.at("BOTH"), "--tls-ca", str(broker.home / "ca.pem"), "--sasl-user", "ann"]
    with PseudoTerminal([TIDELOG, "profile", "create", "asked", *words], columns=200) as terminal:
        terminal.until_output(lambda text: "Password for ann" in text, "it asks")
        terminal.press(PASSWORD + "\r")
        terminal.until_output(lambda text: "created asked" in text, "it is made")
        assert PASSWORD not in terminal.output
    assert json.loads(profiles.read_text())["profiles"]["asked"]["sasl_password"] == PASSWORD
