"""Settings of N processes from those of one broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.app.processes.cores import usable_cores
from tidelog.app.processes.plan import plan, with_known_ports
from tidelog.config import BrokerConfig
from tidelog.config.process_count import PROCESSES_MAX, process_count
from tidelog.errors import InvalidConfig

TWO_NAMES = "PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT"


def configs(
    settings: dict[str, str], count: int = 3, metadata: str | None = "unix:/x/m.sock"
) -> list[BrokerConfig]:
    return [BrokerConfig.of(own) for own in plan(settings, count, "host-1", metadata).values()]


def test_ids_ports_and_folders_follow_each_other() -> None:
    one, two, three = configs(
        {
            "node.id": "7",
            "log.dirs": "/a,/b",
            "listeners": "PLAINTEXT://0.0.0.0:9092,SSL://[::1]:9200",
            "advertised.listeners": "PLAINTEXT://broker:19092,SSL://broker:19200",
            "tidelog.http.listen": "127.0.0.1:8090",
            "tidelog.http.advertise": "broker:18090",
            "ssl.keystore.location": "x.pem",
        }
    )
    assert [config.node_id for config in (one, two, three)] == [7, 8, 9]
    assert three.log_dirs == ("/a/broker-9", "/b/broker-9")
    assert [str(listener) for listener in two.listeners] == ["PLAINTEXT://0.0.0.0:9093", "SSL://[::1]:9201"]
    assert [listener.port for listener in three.advertised_listeners] == [19094, 19202]
    assert (one.tidelog_http_listen[1], three.tidelog_http_listen[1]) == (8090, 8092)
    assert three.tidelog_http_advertise == ("broker", 18092)
    assert {config.tidelog_metadata for config in (one, two, three)} == {"unix:/x/m.sock"}
    assert three.tidelog_processes == "3" and three.tidelog_processes_first == 7


def test_the_processes_are_on_one_machine_and_in_one_rack() -> None:
    for config in configs({}):
        assert (config.tidelog_machine, config.broker_rack) == ("host-1", "host-1")
    for config in configs({"broker.rack": "cellar", "tidelog.machine": "box"}):
        assert (config.tidelog_machine, config.broker_rack) == ("box", "cellar")


def test_a_store_that_is_shared_stays() -> None:
    assert (
        configs({"tidelog.metadata": "etcd://h:2379"}, metadata=None)[1].tidelog_metadata == "etcd://h:2379"
    )


def test_free_ports_are_picked_by_each_and_kept_over_a_restart() -> None:
    one, two = plan(
        {"listeners": "PLAINTEXT://127.0.0.1:0", "tidelog.http.listen": "127.0.0.1:0"}, 2, "h", None
    ).values()
    assert BrokerConfig.of(two).listeners[0].port == 0
    again = BrokerConfig.of(with_known_ports(one, "127.0.0.1:4711", "127.0.0.1:4712"))
    assert again.listeners[0].port == 4711
    assert again.tidelog_http_listen == ("127.0.0.1", 4712)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {
                "listeners": "PLAINTEXT://:9092,OTHER://:9093",
                "listener.security.protocol.map": TWO_NAMES,
            },
            "both need port 9093",
        ),
        ({"tidelog.http.listen": "127.0.0.1:9091"}, "both need port 9092"),
        ({"listeners": "PLAINTEXT://:65534"}, "ports up to 65536"),
    ],
)
def test_ports_that_do_not_suffice_are_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        configs(settings)


def test_how_many_processes() -> None:
    counts = {cores: process_count("auto", "s", cores) for cores in (1, 2, 4, 8, 16, 64, 1024)}
    assert counts == {1: 1, 2: 2, 4: 4, 8: 7, 16: 14, 64: 56, 1024: PROCESSES_MAX}
    assert process_count("5", "s", 1) == 5
    for text in ("0", "-1", "many", "", "257", "٣"):
        with pytest.raises(InvalidConfig, match="write auto, or a number from 1 to 256"):
            process_count(text, "s", 4)
    with pytest.raises(InvalidConfig, match=r"tidelog\.processes"):
        BrokerConfig.of({"tidelog.processes": "none"})


def test_a_containers_limit_counts(tmp_path: Path) -> None:
    here = usable_cores(tmp_path)
    assert here >= 1
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert usable_cores(tmp_path) == here
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    assert usable_cores(tmp_path) == 1
