"""How `tidelog serve` makes settings of its command line; that a broker runs with them is shown in
conformance."""

from __future__ import annotations

from pathlib import Path

import pytest

import tidelog.app.serving
from tests.unit.cli.commands import execute, invoke
from tidelog.config import BrokerConfig


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[BrokerConfig]:
    """The settings a broker would have been started with."""
    started: list[BrokerConfig] = []

    def serve(config: BrokerConfig) -> int:
        started.append(config)
        return 0

    monkeypatch.setattr(tidelog.app.serving, "serve", serve)
    return started


def test_without_flags_the_defaults_hold(served: list[BrokerConfig]) -> None:
    assert invoke("serve").exit_code == 0
    assert served == [BrokerConfig.of({})]


def test_flags_are_short_for_settings(served: list[BrokerConfig], tmp_path: Path) -> None:
    shown = invoke(
        *("serve", "--data", "one", "--data", "two", "--listen", "0.0.0.0:9000", "--http", "127.0.0.1:0"),
        *("--advertise", "broker.example:9000", "--id", "7", "--set", "num.partitions=6"),
    )
    assert shown.exit_code == 0, shown.stderr
    (config,) = served
    assert config.log_dirs == ("one", "two")
    assert [str(one) for one in config.listeners] == ["PLAINTEXT://0.0.0.0:9000"]
    assert [str(one) for one in config.advertised_listeners] == ["PLAINTEXT://broker.example:9000"]
    assert config.tidelog_http_listen == ("127.0.0.1", 0)
    assert (config.node_id, config.num_partitions) == (7, 6)


def test_the_file_yields_to_set_and_both_to_flags(served: list[BrokerConfig], tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "node.id=1\nnum.partitions=2\nlog.dirs=from-file\n# a comment\ndelete.topic.enable=false\n"
    )
    shown = invoke(
        *("serve", "--config", str(file), "--set", "num.partitions=3", "--set", "node.id=4", "--id", "5")
    )
    assert shown.exit_code == 0, shown.stderr
    (config,) = served
    assert (config.num_partitions, config.node_id, config.log_dirs) == (3, 5, ("from-file",))
    assert config.delete_topic_enable is False


def test_named_listeners(served: list[BrokerConfig]) -> None:
    shown = invoke(
        *("serve", "--listen", "0.0.0.0:9092", "--listen", "host://0.0.0.0:19092", "--listen", "SSL://:9093"),
        *("--advertise", "broker1:9092", "--advertise", "HOST://localhost:19092"),
        *("--advertise", "SSL://broker1:9093", "--set", "ssl.keystore.location=/no/such.pem"),
    )
    assert shown.exit_code == 0, shown.stderr
    (config,) = served
    names = ["PLAINTEXT", "HOST", "SSL"]
    assert [listener.name for listener in config.listeners] == names
    assert [(one.name, one.host) for one in config.advertised_listeners] == list(
        zip(names, ["broker1", "localhost", "broker1"], strict=True)
    )
    assert [config.security[name].protocol for name in names] == ["PLAINTEXT", "PLAINTEXT", "SSL"]
    assert config.inter_broker_listener == "PLAINTEXT"


def test_a_named_listener_has_the_protocol_that_the_settings_say(served: list[BrokerConfig]) -> None:
    shown = invoke(
        *("serve", "--listen", "HOST://127.0.0.1:9092", "--set", "ssl.keystore.location=/no/such.pem"),
        *("--set", "listener.security.protocol.map=HOST:SSL"),
    )
    assert shown.exit_code == 0, shown.stderr
    assert served[0].security["HOST"].protocol == "SSL"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--listen", ":1", "--listen", ":2"), "two listeners with the same name"),
        (("--listen", ":1", "--advertise", "HOST://a:1"), "which listeners does not have"),
        (("--secure", "--listen", "A://:1"), "--secure takes one --listen"),
        (("--secure", "--listen", ":1", "--listen", ":2"), "--secure takes one --listen"),
        (("--set", "num.partitions=many"), "num.partitions"),
        (("--listen", "nonsense"), "listeners cannot be 'PLAINTEXT://nonsense'"),
        (("--config", "/nowhere/at/all"), "cannot read /nowhere/at/all: no such file or directory"),
        (("--advertise", "0.0.0.0:9092"), "advertised.listeners"),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_code_2(arguments: tuple[str, ...], said: str) -> None:
    shown = invoke("serve", *arguments)
    assert shown.exit_code == 2
    assert shown.stderr.startswith("Error: ") and shown.stderr.count("\n") == 1
    assert said in shown.stderr


def test_a_bad_line_in_the_file_is_named_with_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=3\nlog.dirs=\\u12\n")
    shown = execute("serve", "--config", str(file))
    assert shown.returncode == 2
    assert f"{file}: line 2".encode() in shown.stderr and shown.stderr.count(b"\n") == 1
