"""Single message transforms, by Kafka Connect's and Debezium's names."""

from __future__ import annotations

from typing import Any

import pytest

from tidelog.connect.records import ConnectRecord
from tidelog.connect.settings import FOR_SINKS, ConnectorConfig
from tidelog.connect.transforms.chain import chain_of, transformed
from tidelog.errors import InvalidConfig

KAFKA = "org.apache.kafka.connect.transforms."


def changed(record: ConnectRecord, kind: str, **settings: str) -> ConnectRecord | None:
    given = {"transforms": "t", "transforms.t.type": KAFKA + kind}
    given.update({f"transforms.t.{name.replace('_', '.')}": value for name, value in settings.items()})
    return transformed(chain_of(ConnectorConfig(FOR_SINKS, given)), record)


@pytest.mark.parametrize(
    ("kind", "settings", "expected"),
    [
        ("ExtractField$Value", {"field": "a"}, 1),
        ("HoistField$Value", {"field": "row"}, {"row": {"a": 1, "b": {"c": "x"}, "d": "2"}}),
        ("ReplaceField$Value", {"exclude": "b", "renames": "a:n"}, {"n": 1, "d": "2"}),
        ("ReplaceField$Value", {"include": "a"}, {"a": 1}),
        ("MaskField$Value", {"fields": "a,d"}, {"a": 0, "b": {"c": "x"}, "d": ""}),
        ("Cast$Value", {"spec": "a:string,d:int32"}, {"a": "1", "b": {"c": "x"}, "d": 2}),
        ("Flatten$Value", {"delimiter": "_"}, {"a": 1, "b_c": "x", "d": "2"}),
        (
            "InsertField$Value",
            {"topic_field": "t", "static_field": "s", "static_value": "v"},
            {"a": 1, "b": {"c": "x"}, "d": "2", "t": "shop", "s": "v"},
        ),
    ],
)
def test_fields_of_values(kind: str, settings: dict[str, str], expected: Any) -> None:
    record = ConnectRecord("shop", value={"a": 1, "b": {"c": "x"}, "d": "2"})
    out = changed(record, kind, **settings)
    assert out is not None and out.value == expected
    tombstone = ConnectRecord("shop", key=1)
    assert changed(tombstone, kind, **settings) == tombstone


def test_keys_topics_and_headers() -> None:
    record = ConnectRecord("db.shop.goods", key=None, value={"id": 7, "n": 1}, timestamp=1_700_000_000_000)
    keyed = changed(record, "ValueToKey", fields="id")
    assert keyed is not None and keyed.key == {"id": 7}
    plain = changed(keyed, "ExtractField$Key", field="id")
    assert plain is not None and plain.key == 7
    routed = changed(record, "RegexRouter", regex=r"db\.(.*)\.(.*)", replacement="$2-of-$1")
    assert routed is not None and routed.topic == "goods-of-shop"
    dated = changed(record, "TimestampRouter")
    assert dated is not None and dated.topic == "db.shop.goods-20231114"
    named = changed(record, "InsertHeader", header="h", value_literal="v")
    assert named is not None and named.headers == (("h", b"v"),)
    bare = changed(named, "DropHeaders", headers="h")
    assert bare is not None and bare.headers == ()


def test_a_predicate_says_for_which_records_a_transform_works() -> None:
    given = {
        "transforms": "drop",
        "transforms.drop.type": KAFKA + "Filter",
        "transforms.drop.predicate": "shop",
        "transforms.drop.negate": "true",
        "predicates": "shop",
        "predicates.shop.type": KAFKA + "predicates.TopicNameMatches",
        "predicates.shop.pattern": "shop-.*",
    }
    chain = chain_of(ConnectorConfig(FOR_SINKS, given))
    kept = ConnectRecord("shop-1", value=1)
    assert transformed(chain, kept) is kept
    assert transformed(chain, ConnectRecord("other", value=1)) is None


def test_the_row_of_an_envelope() -> None:
    envelope = {"op": "u", "before": {"id": 1, "n": 1}, "after": {"id": 1, "n": 2}, "source": {"lsn": 5}}
    kind = "io.debezium.transforms.ExtractNewRecordState"

    def unwrapped(value: Any, **more: str) -> ConnectRecord | None:
        given = {"transforms": "t", "transforms.t.type": kind}
        given.update({f"transforms.t.{name.replace('_', '.')}": text for name, text in more.items()})
        return transformed(chain_of(ConnectorConfig(FOR_SINKS, given)), ConnectRecord("t", 1, value))

    row = unwrapped(envelope, add_fields="op,source.lsn:at")
    assert row is not None and row.value == {"id": 1, "n": 2, "__op": "u", "__at": 5}
    deleted = {**envelope, "op": "d", "after": None}
    gone = unwrapped(deleted)
    assert gone is not None and gone.value is None and gone.key == 1
    assert unwrapped(None) is None
    assert unwrapped(deleted, delete_tombstone_handling_mode="drop") is None
    marked = unwrapped(deleted, delete_tombstone_handling_mode="rewrite")
    assert marked is not None and marked.value == {"id": 1, "n": 1, "__deleted": "true"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"transforms": "t"}, '"transforms.t.type"'),
        ({"transforms": "t", "transforms.t.type": "Nothing"}, "cannot be 'Nothing'"),
        (
            {
                "transforms": "t",
                "transforms.t.type": "ValueToKey",
                "transforms.t.fields": "a",
                "transforms.t.x": "1",
            },
            "t.x is",
        ),
        ({"transforms.t.type": "ValueToKey"}, "belongs to no entry"),
        (
            {"transforms": "t", "transforms.t.type": "RegexRouter", "transforms.t.regex": "("},
            "no regular expression",
        ),
        (
            {"transforms": "t", "transforms.t.type": "Filter", "transforms.t.predicate": "p"},
            "which is not in predicates",
        ),
    ],
)
def test_settings_without_a_meaning_are_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidConfig) as refusal:
        chain_of(ConnectorConfig(FOR_SINKS, given))
    assert words in str(refusal.value)
