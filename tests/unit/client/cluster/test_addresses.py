from __future__ import annotations

import pytest

from tidelog.client.cluster.addresses import Address, parse_addresses


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:9092", [("127.0.0.1", 9092)]),
        ("localhost", [("localhost", 9092)]),
        ("a:1,b:2", [("a", 1), ("b", 2)]),
        (" a:1 , b:2 ,", [("a", 1), ("b", 2)]),
        ("a:1,a:1", [("a", 1)]),
        ("[::1]:9093", [("::1", 9093)]),
        ("[::1]", [("::1", 9092)]),
        ("fe80::1", [("fe80::1", 9092)]),
        ("PLAINTEXT://broker:9092", [("broker", 9092)]),
        (["a:1", "b:2,c:3"], [("a", 1), ("b", 2), ("c", 3)]),
    ],
)
def test_addresses_are_read_as_people_write_them(
    text: str | list[str], expected: list[tuple[str, int]]
) -> None:
    assert list(parse_addresses(text)) == expected


@pytest.mark.parametrize(
    "text", ["", " , ", ":9092", "host:", "host:port", "host:0", "host:65536", "[::1", "[::1]x:1"]
)
def test_what_is_no_address_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        parse_addresses(text)


def test_an_address_prints_as_it_is_written() -> None:
    assert [str(Address("a", 1)), str(Address("::1", 2))] == ["a:1", "[::1]:2"]
