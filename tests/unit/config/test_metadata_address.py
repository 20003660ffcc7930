from __future__ import annotations

import pytest

from tidelog.app.processes.plan import plan
from tidelog.config import BrokerConfig
from tidelog.config.embedded_member import own_member
from tidelog.config.metadata_address import (
    EmbeddedAddress,
    EmbeddedMember,
    EtcdAddress,
    SocketAddress,
    parse_metadata,
)
from tidelog.errors import InvalidConfig


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sqlite:", None),
        ("etcd://h:1", EtcdAddress(("h:1",), "/tidelog/")),
        ("etcd://h", EtcdAddress(("h:2379",), "/tidelog/")),
        ("etcd://a:1,b:2,a:1", EtcdAddress(("a:1", "b:2"), "/tidelog/")),
        ("etcd://a:1,b/", EtcdAddress(("a:1", "b:2379"), "/tidelog/")),
        ("etcd://a:1/prod", EtcdAddress(("a:1",), "/prod/")),
        ("etcd://a:1/x/y/", EtcdAddress(("a:1",), "/x/y/")),
        ("unix:/run/tidelog/metadata.sock", SocketAddress("/run/tidelog/metadata.sock")),
        ("unix:///run/with space.sock", SocketAddress("/run/with space.sock")),
        ("etcd://[::1]:1,10.0.0.1:2", EtcdAddress(("[::1]:1", "10.0.0.1:2"), "/tidelog/")),
    ],
)
def test_addresses_are_read(text: str, expected: EtcdAddress | SocketAddress | None) -> None:
    assert parse_metadata(text, "tidelog.metadata") == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sqlite",
        "etcd:",
        "etcd://",
        "etcd:///x",
        "etcd://a:0",
        "etcd://a:65536",
        "etcd://a:b",
        "http://a",
        "unix:",
        "unix:relative.sock",
        "unix://host/x/",
        "embedded://",
        "embedded://a,b",
        "embedded://a:1,b:2,c:x",
    ],
)
def test_other_words_are_refused_with_the_way_out(text: str) -> None:
    with pytest.raises(InvalidConfig, match=r"tidelog\.metadata cannot be"):
        BrokerConfig.of({"tidelog.metadata": text})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tidelog.metadata.user": "me"}, "is for etcd"),
        ({"tidelog.metadata": "unix:/x", "tidelog.metadata.user": "me"}, "is for etcd"),
        ({"tidelog.metadata": "etcd://a", "tidelog.metadata.password": "x"}, "needs tidelog.metadata.user"),
        ({"tidelog.metadata": "etcd://a", "tidelog.metadata.tls.cert": "x"}, "go together"),
        (
            {
                "tidelog.metadata": "etcd://a",
                "tidelog.metadata.tls.cert": "x",
                "tidelog.metadata.tls.key": "x",
            },
            "needs tidelog.metadata.tls.ca",
        ),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        BrokerConfig.of(settings)


@pytest.mark.parametrize(
    ("text", "hint"), [("unix:relative.sock", "is absolute"), ("embedded://a,b", "name 1, 3 or 5 machines")]
)
def test_a_near_miss_says_what_was_meant(text: str, hint: str) -> None:
    with pytest.raises(InvalidConfig, match=hint):
        parse_metadata(text, "tidelog.metadata")


EMBEDDED = "embedded://10.0.0.1,10.0.0.2,10.0.0.3:3379"
MEMBERS = (
    EmbeddedMember("10.0.0.1", 2379),
    EmbeddedMember("10.0.0.2", 2379),
    EmbeddedMember("10.0.0.3", 3379),
)


def member_of(**settings: str) -> EmbeddedMember | None:
    named = {name.replace("_", "."): text for name, text in settings.items()}
    config = BrokerConfig.of({"tidelog.metadata": EMBEDDED, **named})
    assert isinstance(config.metadata_address, EmbeddedAddress)
    return own_member(config, config.metadata_address)


def test_members_of_an_embedded_store_are_read() -> None:
    address = parse_metadata(EMBEDDED, "tidelog.metadata")
    assert address == EmbeddedAddress(MEMBERS)
    assert isinstance(address, EmbeddedAddress) and address.etcd.endpoints[2] == "10.0.0.3:3379"
    assert MEMBERS[2].peer == "10.0.0.3:3380"
    assert isinstance(parse_metadata("embedded://[::1]", "tidelog.metadata"), EmbeddedAddress)


def test_a_broker_runs_the_member_of_its_own_host() -> None:
    assert member_of(listeners="PLAINTEXT://10.0.0.2:9092") == MEMBERS[1]
    anywhere = "PLAINTEXT://0.0.0.0:9092"
    assert member_of(listeners=anywhere, advertised_listeners="PLAINTEXT://10.0.0.3:9092") == MEMBERS[2]
    assert member_of(listeners="PLAINTEXT://10.0.0.9:9092") is None
    assert member_of(tidelog_metadata_member="10.0.0.1:2379") == MEMBERS[0]
    assert member_of(listeners="PLAINTEXT://10.0.0.2:9092", tidelog_metadata_member="none") is None


def test_an_impossible_member_is_refused() -> None:
    with pytest.raises(
        InvalidConfig, match=r"member cannot be 'x': it must be none or one of 10\.0\.0\.1:2379"
    ):
        member_of(tidelog_metadata_member="x")
    with pytest.raises(InvalidConfig, match="has 2 members on this host"):
        config = BrokerConfig.of({"tidelog.metadata": "embedded://127.0.0.1:1,127.0.0.1:3,h"})
        assert isinstance(config.metadata_address, EmbeddedAddress)
        own_member(config, config.metadata_address)
    for settings in (
        {"tidelog.metadata.member": "none"},
        {"tidelog.metadata": EMBEDDED, "tidelog.metadata.user": "me"},
        {"tidelog.metadata": EMBEDDED, "tidelog.metadata.tls.ca": "ca.pem"},
    ):
        with pytest.raises(InvalidConfig, match=r"tidelog\.metadata\."):
            BrokerConfig.of(settings)


def test_of_several_brokers_on_a_machine_one_runs_the_member() -> None:
    settings = {"tidelog.metadata": EMBEDDED, "listeners": "PLAINTEXT://10.0.0.2:9092", "log.dirs": "/data"}
    plans = plan(settings, 3, "machine", None)
    assert [plans[node]["tidelog.metadata.member"] for node in sorted(plans)] == [
        "10.0.0.2:2379",
        "none",
        "none",
    ]
