from __future__ import annotations

import json
import re
import resource
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.cli.commands import TIDELOG, invoke
from tidelog._speed.log.batch import stamp
from tidelog._speed.log.crc32c import crc32c
from tidelog.cli.log.file import read_log_file
from tidelog.record import BatchBuilder, Codec, EndMarker, Marker, build_marker
from tidelog.storage.disk import SystemDisk

NAME = "00000000000000000000.log"


def batch(base: int, *values: bytes, codec: Codec = Codec.NONE, producer: int = -1) -> bytes:
    builder = BatchBuilder()
    for value in values:
        builder.add(b"k", value, 1_750_000_000_000, [("h", b"1")])
    sequence = 0 if producer >= 0 else -1
    data = bytearray(
        builder.build(codec=codec, producer_id=producer, producer_epoch=sequence, base_sequence=sequence)
    )
    stamp(data, 0, base, 3)
    return bytes(data)


def segment(folder: Path, data: bytes, name: str = NAME) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def dump(path: Path, *options: str) -> tuple[int, list[dict[str, Any]]]:
    shown = invoke("log", "dump", str(path), "--json", *options)
    return shown.exit_code, [json.loads(line) for line in shown.stdout.splitlines()]


def test_batches_are_shown_with_a_verdict_on_each(tmp_path: Path) -> None:
    path = segment(tmp_path, batch(0, b"a", b"b") + batch(2, b"c", codec=Codec.ZSTD, producer=77))
    code, items = dump(path)
    assert code == 0
    assert [one["type"] for one in items] == ["batch", "batch", "summary"]
    first, second, summary = items
    assert (first["base_offset"], first["last_offset"], first["records"], first["crc"]) == (0, 1, 2, "ok")
    assert (first["codec"], first["leader_epoch"], first["producer_id"]) == ("none", 3, -1)
    assert (second["position"], second["codec"], second["producer_id"]) == (first["size"], "zstd", 77)
    assert summary == {
        "type": "summary",
        "unit": "batch",
        "items": 2,
        "records": 3,
        "bytes": path.stat().st_size,
        "damaged": 0,
    }


def test_records_are_shown_when_asked_for(tmp_path: Path) -> None:
    marker = build_marker(
        EndMarker(Marker.ABORT, 1), producer_id=5, producer_epoch=0, timestamp=1, base_offset=2
    )
    path = segment(tmp_path, batch(0, b"a", b"\xff", codec=Codec.LZ4) + marker)
    _, items = dump(path, "--records")
    records = [one for one in items if one["type"] == "record"]
    assert records[0] == {
        "type": "record",
        "offset": 0,
        "timestamp": 1_750_000_000_000,
        "key": "k",
        "value": "a",
        "headers": [{"name": "h", "value": "1"}],
    }
    assert records[1]["value_base64"] == "/w=="
    assert records[2] == {
        "type": "record",
        "offset": 2,
        "timestamp": 1,
        "marker": "abort",
        "coordinator_epoch": 1,
    }


def test_text_is_one_line_per_item(tmp_path: Path) -> None:
    shown = invoke("log", "dump", "--records", str(segment(tmp_path, batch(7, b"a", producer=9))))
    assert shown.stdout.splitlines() == [
        "offsets=7..7 position=0 size=74 records=1 time=2025-06-15T15:06:40.000Z codec=none epoch=3 crc=ok "
        "producer=9:0 sequence=0..0",
        "  offset=7 time=2025-06-15T15:06:40.000Z key='k' value='a' h='1'",
        "1 batches, 1 records, 74 bytes: all good",
    ]


def test_a_batch_of_many_pieces_is_checked_as_one(tmp_path: Path) -> None:
    data = bytearray(batch(0, b"x" * (3 << 20)))
    assert dump(segment(tmp_path, bytes(data)))[0] == 0
    data[-1] ^= 1
    assert dump(segment(tmp_path, bytes(data)))[0] == 1


def test_a_flipped_bit_is_found_and_the_rest_still_shown(tmp_path: Path) -> None:
    data = bytearray(batch(0, b"a") + batch(1, b"b") + batch(2, b"c"))
    data[len(batch(0, b"a")) + 70] ^= 1
    code, items = dump(segment(tmp_path, bytes(data)), "--records")
    assert code == 1
    assert [one["crc"] for one in items if one["type"] == "batch"] == ["ok", "bad", "ok"]
    assert [one["value"] for one in items if one["type"] == "record"] == ["a", "c"]
    shown = invoke("log", "dump", str(tmp_path / NAME))
    assert "crc=BAD" in shown.stdout and "1 damaged place" in shown.stderr


@pytest.mark.parametrize(
    ("tail", "problem"),
    [
        (batch(1, b"torn")[:-3], "a batch of 77 bytes, of which only 74 exist"),
        (b"\x01" * 20, "20 bytes remain, less than a batch header"),
        (b"\x01" * 8 + b"\xff" * 60, "no batch starts here"),
        (batch(1, b"old")[:16] + b"\x01" + batch(1, b"old")[17:], "a batch of format 1, not 2"),
        (batch(0, b"again"), "offset 0 comes after 0"),
    ],
    ids=["torn", "rest", "no batch", "old format", "offset"],
)
def test_what_is_wrong_at_the_end_is_named(tmp_path: Path, tail: bytes, problem: str) -> None:
    code, items = dump(segment(tmp_path, batch(0, b"good") + tail))
    assert code == 1
    (damage,) = [one for one in items if one["type"] == "damage"]
    assert problem in damage["problem"] and damage["position"] == len(batch(0, b"good"))
    assert items[-1]["damaged"] == 1


def test_preallocated_space_is_no_damage(tmp_path: Path) -> None:
    code, items = dump(segment(tmp_path, batch(0, b"a") + bytes(5_000)))
    assert code == 0 and items[-1]["items"] == 1


def test_a_record_that_lies_about_its_size_is_damage(tmp_path: Path) -> None:
    data = bytearray(batch(0, b"a"))
    data[61] = 0x7E
    data[17:21] = struct.pack(">I", crc32c(bytes(data[21:])))
    code, items = dump(segment(tmp_path, bytes(data)), "--records")
    assert code == 1 and [one["type"] for one in items] == ["batch", "damage", "summary"]


def test_indexes_are_shown_up_to_their_unused_space(tmp_path: Path) -> None:
    offsets = struct.pack(">iiii", 5, 100, 9, 250) + bytes(64)
    code, items = dump(segment(tmp_path, offsets, "00000000000000001000.index"))
    assert code == 0
    assert [(one["offset"], one["position"]) for one in items[:-1]] == [(1005, 100), (1009, 250)]
    times = struct.pack(">qiqi", 1_000, 5, 2_000, 9) + bytes(24)
    code, items = dump(segment(tmp_path, times, "00000000000000001000.timeindex"))
    assert code == 0
    assert [(one["offset"], one["timestamp"]) for one in items[:-1]] == [(1005, 1000), (1009, 2000)]


def test_an_index_that_goes_back_is_damaged(tmp_path: Path) -> None:
    path = segment(tmp_path, struct.pack(">iiii", 9, 100, 5, 250), "00000000000000000000.index")
    code, items = dump(path)
    assert code == 1 and items[-1]["damaged"] == 1


def test_aborted_transactions_are_shown_with_what_is_wrong(tmp_path: Path) -> None:
    entry = struct.Struct(">hqqqq")
    name = "00000000000000001000.txnindex"
    good = entry.pack(0, 7, 990, 1003, 1004) + entry.pack(0, 8, 1001, 1009, 1002)
    code, items = dump(segment(tmp_path, good, name))
    assert code == 0
    assert [tuple(one.values())[1:] for one in items[:-1]] == [(7, 990, 1003, 1004), (8, 1001, 1009, 1002)]
    shown = invoke("log", "dump", str(tmp_path / name)).stdout
    assert shown.splitlines()[0] == "producer=7 offsets=990..1003 last-stable=1004"
    for wrong in (
        entry.pack(1, 7, 1, 2000, 3),
        entry.pack(0, 7, 1, 5, 3),
        entry.pack(0, 7, 9_000, 2_000, 3),
        b"cut",
    ):
        code, items = dump(segment(tmp_path, good + wrong, name))
        assert code == 1 and items[-1]["damaged"] == 1


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("missing.log", "cannot read .*missing.log: no such file or directory"),
        ("notes.txt", "is not a file of a log"),
        ("orders.index", "does not start with its base offset"),
    ],
)
def test_a_file_that_is_none_is_one_clear_line(tmp_path: Path, name: str, said: str) -> None:
    if name != "missing.log":
        (tmp_path / name).write_bytes(b"x" * 100)
    shown = invoke("log", "dump", str(tmp_path / name))
    assert shown.exit_code == 1
    assert shown.stderr.startswith("Error: ") and shown.stderr.count("\n") == 1
    assert re.search(said, shown.stderr)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.binary(max_size=400), flips=st.lists(st.integers(0, 10_000), max_size=5), cut=st.integers(0, 400)
)
def test_no_bytes_break_it(tmp_path: Path, data: bytes, flips: list[int], cut: int) -> None:
    good = bytearray(batch(0, b"a", b"b") + batch(2, b"c" * 50, codec=Codec.GZIP) + data)
    for flip in flips:
        good[flip % len(good)] ^= 1 << flip % 8
    for name in (NAME, "00000000000000000000.index", "00000000000000000000.timeindex"):
        path = segment(tmp_path, bytes(good[: len(good) - cut % len(good)]), name)
        items = list(read_log_file(path, True, SystemDisk()))
        assert items[-1]["type"] == "summary"


def test_a_huge_length_field_costs_no_memory(tmp_path: Path) -> None:
    size = 600 << 20
    header = bytearray(batch(0, b"a")[:61])
    header[8:12] = struct.pack(">i", size - 12)
    path = tmp_path / NAME
    with path.open("wb") as file:
        file.write(header)
        file.truncate(size)  # a sparse file: it takes no space

    def bounded() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))

    shown = subprocess.run(
        [TIDELOG, "log", "dump", "--records", str(path)], capture_output=True, preexec_fn=bounded, timeout=120
    )
    assert shown.returncode == 1 and b"crc=BAD" in shown.stdout, shown.stderr


def test_a_reader_that_leaves_early_ends_it_quietly(tmp_path: Path) -> None:
    path = segment(tmp_path, b"".join(batch(at, b"x") for at in range(20_000)))
    running = subprocess.Popen(
        [TIDELOG, "log", "dump", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert running.stdout is not None and running.stderr is not None
    running.stdout.readline()
    running.stdout.close()
    assert running.stderr.read() == b""
    assert running.wait(30) == 0
    running.stderr.close()
