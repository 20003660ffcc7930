"""What `tidelog consume --json` prints, `tidelog produce --input json` writes; with schemas, conditions and bounds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.conftest import ON_KAFKA
from tests.conformance.test_cli_records import failed, ok, records, start
from tests.conformance.tidelog_broker import TidelogBroker
from tests.unit.cli.commands import execute

KEPT = {"retention.ms": "-1"}  # the records have old timestamps
Topics = Callable[..., str]

AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "total", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
PROTO = 'syntax = "proto3"; message Order { int64 total = 1; string note = 2; }'
JSON_SCHEMA = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}


@pytest.fixture
def on(bootstrap: str) -> tuple[str, str]:
    return ("--bootstrap", bootstrap)


def write(topic: str, on: tuple[str, ...], *lines: Any, options: tuple[str, ...] = ()) -> None:
    text = "".join(json.dumps(line) + "\n" for line in lines)
    ok("produce", topic, "--input", "json", *options, *on, input=text.encode())


def test_records_of_every_kind_come_back_the_same(on: tuple[str, str], topic: Topics) -> None:
    first, second = topic(partitions=3, config=KEPT), topic(partitions=3, config=KEPT)
    lines = [
        {"key": "a", "value": "text ä", "partition": 2, "timestamp": 1_600_000_000_000},
        {"key": "gone", "value": None, "partition": 0, "timestamp": 1_600_000_000_001},
        {"value": "", "partition": 1, "timestamp": 1_600_000_000_002},
        {
            "key_base64": "/wA=",
            "value_base64": "gIE=",
            "partition": 2,
            "timestamp": 1_600_000_000_003,
            "headers": [
                {"name": "h", "value": "1"},
                {"name": "h", "value": None},
                {"name": "b", "value_base64": "/w=="},
            ],
        },
    ]
    write(first, on, *lines)
    shown = ok("consume", first, "--json", *on)
    assert execute("produce", second, "--input", "json", *on, input=shown + b"\n").returncode == 0

    def content(name: str) -> list[Any]:
        listed = [{**line, "topic": None} for line in records(name, on)]
        return sorted(listed, key=lambda line: (line["partition"], line["offset"]))

    assert content(first) == content(second)
    by_partition = {line["partition"]: line for line in content(second) if line["partition"] < 2}
    assert by_partition[0]["key"] == "gone" and by_partition[0]["value"] is None
    last = content(second)[-1]
    assert (last["key_base64"], last["value_base64"], last["headers"]) == (
        "/wA=",
        "gIE=",
        lines[3]["headers"],
    )
    assert [line["timestamp"] for line in content(second)] == [
        1_600_000_000_001,
        1_600_000_000_002,
        1_600_000_000_000,
        1_600_000_000_003,
    ]


def test_a_line_that_cannot_be_written_is_named(on: tuple[str, str], topic: Topics) -> None:
    fresh = topic()
    for line, problem in (
        (b'{"value": 1}\n{"key": 2', "line 2 cannot be written: it is not JSON"),
        (b'{"value": 1, "partition": 7}', "has no partition 7: use --by-key"),
        (b"plain", "line 1 cannot be written: it is not JSON"),
    ):
        assert problem in failed("produce", fresh, "--input", "json", *on, input=line)
    assert ok("consume", fresh, *on) == b"1\n", "what came before is written"
    ok("produce", fresh, "--input", "json", "--by-key", *on, input=b'{"value": 2, "partition": 7}')
    assert ok("consume", fresh, *on) == b"1\n2\n"
    said = execute("produce", fresh, "--input", "json", "--key-separator", ":", *on)
    assert said.returncode == 2 and b"--key-separator is for lines of text" in said.stderr


def test_conditions_bounds_and_groups_choose_records(on: tuple[str, str], topic: Topics) -> None:
    fresh = topic(partitions=2, config=KEPT)
    write(
        fresh,
        on,
        *(
            {
                "key": f"k{number % 2}",
                "value": {"n": number},
                "partition": number % 2,
                "timestamp": 1_600_000_000_000 + number * 1_000,
                "headers": {"source": "shop" if number < 4 else "web"},
            }
            for number in range(10)
        ),
    )

    def numbers(*options: str) -> list[int]:
        return [json.loads(line)["n"] for line in ok("consume", fresh, *options, *on).splitlines()]

    assert sorted(numbers("--where", "value.n >= 7")) == [7, 8, 9]
    assert sorted(numbers("--where", "headers.source == 'shop' and key == 'k1'")) == [1, 3]
    assert sorted(numbers("--where", "timestamp < '2020-09-13T12:26:43Z'")) == [0, 1, 2]
    assert len(numbers("--where", "value.n >= 0", "--max", "3")) == 3
    assert numbers("--tail", "3") == [7, 8, 9], "of all partitions together, by time"
    assert numbers("--tail", "2", "--where", "value.n < 5") == [3, 4]
    assert numbers("--tail", "0") == []
    assert numbers("--partition", "0", "--until", "2") == [0, 2]
    assert numbers("--partition", "1", "--from", "1", "--until", "-1") == [3, 5, 7]
    assert sorted(numbers("--until", "2020-09-13T12:26:44Z")) == [0, 1, 2, 3]
    assert sorted(numbers("--from", "2020-09-13T12:26:44Z", "--until", "2020-09-13T12:26:46Z")) == [4, 5]
    grouped = numbers("--group-by-key")
    assert sorted(grouped) == list(range(10)) and grouped[:5] in ([0, 2, 4, 6, 8], [1, 3, 5, 7, 9])
    for options, problem in (
        (("--where", "value.n = 1"), "write == to compare"),
        (("--tail", "1", "--group-by-key"), "--tail cannot be used"),
        (("--follow", "--until", "5"), "--until says where to stop"),
        (("--group", "g", "--tail", "5"), "--tail cannot be used with --group"),
    ):
        said = execute("consume", fresh, *options, *on)
        assert said.returncode == 2 and problem in said.stderr.decode()


def test_the_tail_is_followed_by_new_records(on: tuple[str, str], topic: Topics) -> None:
    fresh = topic(partitions=2)
    ok("produce", fresh, *on, input=b"1\n2\n3\n")
    with start("consume", fresh, "--tail", "1", "--follow", "--max", "3", *on) as following:
        assert following.stdout is not None
        assert following.stdout.readline() == b"3\n"
        ok("produce", fresh, *on, input=b"4\n5\n")
        assert sorted((following.stdout.readline(), following.stdout.readline())) == [b"4\n", b"5\n"]
        assert following.wait(60) == 0


@pytest.mark.skipif(ON_KAFKA, reason="Apache Kafka has no schema registry")
@pytest.mark.parametrize(
    ("suffix", "text", "note"),
    [
        (".avsc", json.dumps(AVRO), {"string": "pears"}),
        (".proto", PROTO, "pears"),
        (".json", json.dumps(JSON_SCHEMA), "pears"),
    ],
)
def test_values_in_a_schema_are_written_from_json_and_read_as_json(
    on: tuple[str, str],
    broker: TidelogBroker,
    topic: Topics,
    tmp_path: Path,
    suffix: str,
    text: str,
    note: Any,
) -> None:
    fresh, file = topic(), tmp_path / f"order{suffix}"
    file.write_text(text)
    registry = ("--registry", f"http://{broker.http}")
    ok("schemas", "register", f"{fresh}-value", str(file), *registry)
    by_registry = ("--value-schema", "registry", *registry)
    write(fresh, on, {"key": "a", "value": {"total": 5, "note": note}}, options=by_registry)
    ok("produce", fresh, *by_registry, *on, input=json.dumps({"total": 6, "note": note}).encode())
    write(fresh, on, {"key": "a", "value": None}, options=by_registry)
    assert b"\0" in ok("consume", fresh, "--max", "1", *on), "it has the id of its schema"

    decoded = records(fresh, on, *by_registry)
    assert [str(line["value"]["total"]) if line["value"] else None for line in decoded] == ["5", "6", None]
    assert decoded[0]["value"]["note"] == note
    assert json.loads(ok("consume", fresh, "--max", "1", *by_registry, *on))["note"] == note
    found = records(fresh, on, "--where", "value.note == 'pears' and offset == 1", *by_registry)
    assert [line["offset"] for line in found] == [1]

    copy = topic()
    ok("schemas", "register", f"{copy}-value", str(file), *registry)
    lines = b"".join(json.dumps(line).encode() + b"\n" for line in decoded)
    ok("produce", copy, "--input", "json", *by_registry, *on, input=lines)
    assert [line["value"] for line in records(copy, on, *by_registry)] == [line["value"] for line in decoded]

    said = failed(
        "produce", copy, "--input", "json", *by_registry, *on, input=b'{"value": {"total": "many"}}'
    )
    assert "line 1 cannot be written: it does not fit schema" in said

    plain = topic()
    by_file = ("--value-schema", str(file))
    write(plain, on, {"value": {"total": 7, "note": note}}, options=by_file)
    assert b"\0\0\0" not in ok("consume", plain, *on), "no id of a schema"
    assert str(records(plain, on, *by_file)[0]["value"]["total"]) == "7"


@pytest.mark.skipif(ON_KAFKA, reason="Apache Kafka has no schema registry")
def test_a_value_that_does_not_fit_its_schema_is_printed_as_it_is_and_told(
    on: tuple[str, str], broker: TidelogBroker, topic: Topics, tmp_path: Path
) -> None:
    fresh = topic()
    ok("produce", fresh, *on, input=b"no schema\n")
    shown = execute(
        "consume", fresh, "--value-schema", "registry", "--registry", f"http://{broker.http}", *on
    )
    assert shown.returncode == 1 and shown.stdout == b"no schema\n"
    said = shown.stderr.decode()
    assert "1 key or value did not fit" in said and "at offset 0 of partition 0" in said
    for given, problem in (
        ("none.txt", "neither `registry` nor a file"),
        (str(tmp_path / "a.avsc"), "no such file"),
    ):
        shown = execute("consume", fresh, "--value-schema", given, *on)
        assert shown.returncode == 2 and problem in shown.stderr.decode()
    bad = tmp_path / "bad.avsc"
    bad.write_text("{}")
    shown = execute("consume", fresh, "--value-schema", str(bad), *on)
    assert shown.returncode == 2 and "is not a schema" in shown.stderr.decode()
