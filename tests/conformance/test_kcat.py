"""kcat (librdkafka on the command line) as a producer, a consumer and a lister."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.conformance.clients import CODECS, Message, confluent_consume, confluent_produce


def kcat(bootstrap: str, *arguments: str, stdin: str = "") -> str:
    command = ["kcat", "-b", bootstrap, *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("codec", CODECS)
def test_lines_go_in_and_come_out(codec: str, bootstrap: str, topic: Any) -> None:
    known = topic()
    lines = "".join(f"key-{i}:value {i}\n" for i in range(100))
    kcat(bootstrap, "-P", "-t", known, "-p", "0", "-K", ":", "-z", codec, stdin=lines)
    out = kcat(bootstrap, "-C", "-t", known, "-p", "0", "-o", "beginning", "-e", "-q", "-K", ":")
    assert out == lines
    assert confluent_consume(bootstrap, known, 1)[0].message.key == b"key-0"


def test_headers_and_metadata_as_json(bootstrap: str, topic: Any) -> None:
    known = topic()
    kcat(bootstrap, "-P", "-t", known, "-p", "0", "-H", "colour=blue", stdin="hello\n")
    found = json.loads(kcat(bootstrap, "-C", "-t", known, "-p", "0", "-o", "0", "-e", "-q", "-J"))
    assert found["payload"] == "hello"
    assert found["headers"] == ["colour", "blue"]
    assert (found["topic"], found["partition"], found["offset"], found["tstype"]) == (known, 0, 0, "create")


@pytest.mark.parametrize(
    ("position", "expected"), [("3", "34"), ("-2", "34"), ("beginning", "01234"), ("end", "")]
)
def test_starting_positions(position: str, expected: str, bootstrap: str, topic: Any) -> None:
    known = topic()
    confluent_produce(bootstrap, known, [Message(b"%d" % i) for i in range(5)])
    out = kcat(bootstrap, "-C", "-t", known, "-p", "0", "-o", position, "-e", "-q", "-D", "")
    assert out == expected


def test_a_start_by_time(bootstrap: str, topic: Any) -> None:
    from tests.conformance.batches import now_ms

    known, now = topic(), now_ms()
    confluent_produce(bootstrap, known, [Message(b"%d" % i, timestamp=now + i * 10) for i in range(5)])
    out = kcat(bootstrap, "-C", "-t", known, "-p", "0", "-o", f"s@{now + 25}", "-e", "-q", "-D", "")
    assert out == "34"


def test_all_partitions_are_read_without_a_group(bootstrap: str, topic: Any) -> None:
    known = topic(partitions=3)
    for partition in range(3):
        confluent_produce(bootstrap, known, [Message(b"%d" % partition)], partition=partition)
    out = kcat(bootstrap, "-C", "-t", known, "-o", "beginning", "-e", "-q")
    assert sorted(out.split()) == ["0", "1", "2"]


def test_the_list_of_topics(bootstrap: str, topic: Any) -> None:
    known = topic(partitions=2)
    found = json.loads(kcat(bootstrap, "-L", "-J", "-t", known))
    (described,) = [t for t in found["topics"] if t["topic"] == known]
    assert [p["partition"] for p in described["partitions"]] == [0, 1]
    assert [b["name"] for b in found["brokers"]] == [bootstrap]


def test_offsets_are_queried(bootstrap: str, topic: Any) -> None:
    known = topic()
    confluent_produce(bootstrap, known, [Message(b"x")] * 4)
    assert f"{known} [0] offset 4" in kcat(bootstrap, "-Q", "-t", f"{known}:0:-1")


def test_an_idempotent_producer(bootstrap: str, topic: Any) -> None:
    known = topic()
    lines = "".join(f"{i}\n" for i in range(1000))
    options = ("-X", "enable.idempotence=true", "-X", "batch.num.messages=10")
    kcat(bootstrap, "-P", "-t", known, "-p", "0", *options, stdin=lines)
    assert kcat(bootstrap, "-C", "-t", known, "-p", "0", "-o", "beginning", "-e", "-q") == lines


def test_empty_and_null_values(bootstrap: str, topic: Any) -> None:
    known = topic()
    kcat(bootstrap, "-P", "-t", known, "-p", "0", "-K", ":", "-Z", stdin="gone:\nthere:x\n")
    out = kcat(bootstrap, "-C", "-t", known, "-p", "0", "-o", "0", "-e", "-q", "-f", "%k %S\n")
    assert out == "gone -1\nthere 1\n"


def test_a_large_file_arrives_whole(bootstrap: str, topic: Any, tmp_path: Any) -> None:
    known = topic(config={"compression.type": "zstd"})
    content = "".join(f"{i:08d}" for i in range(100_000))
    source = tmp_path / "file"
    source.write_text(content)
    kcat(bootstrap, "-P", "-t", known, "-p", "0", str(source))
    assert kcat(bootstrap, "-C", "-t", known, "-p", "0", "-o", "0", "-e", "-q", "-D", "") == content
