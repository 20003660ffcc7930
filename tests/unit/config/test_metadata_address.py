from __future__ import annotations

import pytest

from tidelog.config import BrokerConfig
from tidelog.config.metadata_address import EtcdAddress, SocketAddress, parse_metadata
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
    ("text", "hint"), [("unix:relative.sock", "is absolute"), ("embedded://", "several machines need etcd")]
)
def test_a_near_miss_says_what_was_meant(text: str, hint: str) -> None:
    with pytest.raises(InvalidConfig, match=hint):
        parse_metadata(text, "tidelog.metadata")
