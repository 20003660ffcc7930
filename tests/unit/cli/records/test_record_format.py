from __future__ import annotations

import json

import pytest

from tidelog.cli.records.record_format import BadFormat, record_formatter
from tidelog.client.consumer.fetch.assigned_partition import Record

RECORD = Record("orders", 3, 42, 1_750_000_000_000, "create", b"key", b"value", (("a", b"1"), ("b", None)))
EMPTY = Record("orders", 0, 0, 5, "append", None, None, ())
BINARY = Record("orders", 0, 0, 5, "create", b"\xff", b"\xfe\x00", (("h", b"\x80"),))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("%v", b"value\n"),
        ("%s", b"value\n"),
        ("%k=%v", b"key=value\n"),
        ("%t/%p@%o %T", b"orders/3@42 1750000000000\n"),
        ("%K %S", b"3 5\n"),
        ("%h", b"a=1,b=NULL\n"),
        ("100%% %v", b"100% value\n"),
        (r"%k\t%v\n", b"key\tvalue\n"),
        (r"\x41\\", b"A\\\n"),
        ("", b"\n"),
        ("ä %v", "ä value\n".encode()),
    ],
)
def test_fields_and_escapes_stand_for_what_kcat_has_them_for(text: str, line: bytes) -> None:
    assert record_formatter(text)(RECORD) == line


def test_nulls_are_empty_and_their_sizes_tell() -> None:
    assert record_formatter("[%k][%v] %K %S [%h]")(EMPTY) == b"[][] -1 -1 []\n"


@pytest.mark.parametrize("text", ["%z", "abc%", "\\", r"\q", r"\x4"])
def test_an_unknown_field_is_refused(text: str) -> None:
    with pytest.raises(BadFormat):
        record_formatter(text)


def test_json_has_a_stable_shape() -> None:
    assert json.loads(record_formatter("json")(RECORD)) == {
        "topic": "orders",
        "partition": 3,
        "offset": 42,
        "timestamp": 1_750_000_000_000,
        "timestamp_type": "create",
        "key": "key",
        "value": "value",
        "headers": [{"name": "a", "value": "1"}, {"name": "b", "value": None}],
    }
    assert json.loads(record_formatter("json")(EMPTY))["key"] is None


def test_json_says_so_when_bytes_are_no_text() -> None:
    shape = json.loads(record_formatter("json")(BINARY))
    assert shape["key_base64"] == "/w==" and shape["value_base64"] == "/gA=" and "key" not in shape
    assert shape["headers"] == [{"name": "h", "value_base64": "gA=="}]
