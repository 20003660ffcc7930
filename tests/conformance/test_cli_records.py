"""`tidelog produce` and `tidelog consume` against a real broker, as processes where pipes and signals
matter."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.conftest import BrokerFactory
from tests.conformance.process import wait_until
from tests.unit.cli.commands import TIDELOG, execute, invoke
from tidelog.cli.output import time_text


@pytest.fixture
def on(bootstrap: str) -> tuple[str, str]:
    return ("--bootstrap", bootstrap)


def ok(*arguments: str, input: bytes = b"") -> bytes:
    if arguments[0] != "produce":
        within = invoke(*arguments)
        assert within.exit_code == 0, within.stderr
        return within.stdout_bytes
    shown = execute(*arguments, input=input)
    assert shown.returncode == 0, shown.stderr
    return shown.stdout


def failed(*arguments: str, input: bytes = b"") -> str:
    shown = execute(*arguments, input=input)
    assert shown.returncode == 1, shown.stdout
    said = shown.stderr.decode()
    assert said.startswith("Error: ") and said.count("\n") == 1, said
    return said


def records(topic: str, on: tuple[str, str], *options: str) -> list[Any]:
    return [json.loads(line) for line in ok("consume", topic, "--json", *options, *on).splitlines()]


def test_lines_go_in_and_come_out(on: tuple[str, str], topic: Callable[..., str]) -> None:
    fresh = topic()
    assert ok("produce", fresh, *on, input=b"one\ntwo\n\nlast") == f"4 records written to {fresh}\n".encode()
    assert ok("consume", fresh, *on) == b"one\ntwo\n\nlast\n"


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_keys_headers_and_compression_arrive(
    on: tuple[str, str], topic: Callable[..., str], codec: str
) -> None:
    fresh = topic(partitions=3)
    written = json.loads(
        ok(
            *("produce", fresh, "--key-separator", r"\t", "--compression", codec, "--json", *on),
            *("--header", "source=shop", "--header", "empty="),
            input="k1\tv1\nk2\tä=ö\n\tv3\n".encode(),
        )
    )
    assert (written["records"], written["failed"], sum(written["partitions"].values())) == (3, 0, 3)
    found = {one["key"]: one for one in records(fresh, on)}
    assert {key: one["value"] for key, one in found.items()} == {"k1": "v1", "k2": "ä=ö", "": "v3"}
    headers = [{"name": "source", "value": "shop"}, {"name": "empty", "value": ""}]
    assert all(one["headers"] == headers for one in found.values())
    # Where the Java client would put them: murmur2 of k1 and k2, modulo 3.
    assert (found["k1"]["partition"], found["k2"]["partition"]) == (2, 0)


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_kind_of_acknowledgement_writes(
    on: tuple[str, str], topic: Callable[..., str], acks: str
) -> None:
    fresh = topic(partitions=2)
    ok("produce", fresh, "--acks", acks, "--partition", "1", *on, input=b"x\ny\n")
    wait_until(lambda: len(records(fresh, on)) == 2, 20, "both records are there")
    assert {one["partition"] for one in records(fresh, on)} == {1}


def test_many_lines_keep_their_order(on: tuple[str, str], topic: Callable[..., str], tmp_path: Path) -> None:
    fresh = topic()
    lines = b"".join(b"line %d with some text to fill it\n" % at for at in range(100_000))
    ok("produce", fresh, "--compression", "lz4", *on, input=lines)
    assert ok("consume", fresh, *on) == lines


def test_reading_starts_where_it_is_told_to(on: tuple[str, str], topic: Callable[..., str]) -> None:
    fresh = topic()
    ok("produce", fresh, *on, input=b"0\n1\n2\n")
    ok("produce", fresh, *on, input=b"3\n4\n")
    moment = time_text(records(fresh, on)[3]["timestamp"])
    for start, expected in (
        ("beginning", b"0\n1\n2\n3\n4\n"),
        ("2", b"2\n3\n4\n"),
        ("5", b""),
        ("-2", b"3\n4\n"),
        ("-100", b"0\n1\n2\n3\n4\n"),
        (moment, b"3\n4\n"),
        ("-1d", b"0\n1\n2\n3\n4\n"),
    ):
        assert ok("consume", fresh, "--from", start, *on) == expected, start
    assert ok("consume", fresh, "--from", "end", "--exit", *on) == b""
    assert ok("consume", fresh, "--from", "1", "--max", "2", *on) == b"1\n2\n"
    assert (
        ok("consume", fresh, "--max", "1", "--format", "%t %p %o %k|%v|%S", *on)
        == f"{fresh} 0 0 |0|1\n".encode()
    )
    said = failed("consume", fresh, "--from", "6", *on)
    assert f"offset 6 is out of range in partition 0 of '{fresh}': it has 0 to 5" in said


def test_only_the_partitions_asked_for_are_read(on: tuple[str, str], topic: Callable[..., str]) -> None:
    fresh = topic(partitions=3)
    for part in range(3):
        ok("produce", fresh, "--partition", str(part), *on, input=b"%d\n" % part)
    assert sorted(ok("consume", fresh, *on).split()) == [b"0", b"1", b"2"]
    assert ok("consume", fresh, "--partition", "1", *on) == b"1\n"
    for command in ("consume", "produce"):
        said = failed(command, fresh, "--partition", "9", *on)
        assert f"topic '{fresh}' has no partition 9: it has 0 to 2" in said


def test_a_topic_that_is_not_there_is_one_clear_line(on: tuple[str, str], name: Callable[[], str]) -> None:
    missing = name()
    assert f"there is no topic '{missing}' on {on[1]}" in failed("consume", missing, *on)
    assert missing not in ok("topics", "list", *on).decode(), "reading does not create it"


def test_producing_creates_the_topic_where_the_broker_allows_it(
    on: tuple[str, str], name: Callable[[], str]
) -> None:
    fresh = name()
    assert ok("produce", fresh, *on, input=b"x\n") == f"1 record written to {fresh}\n".encode()
    assert ok("consume", fresh, *on) == b"x\n"


def test_producing_to_no_topic_ends_where_the_broker_does_not_create_any(
    own_broker: BrokerFactory, name: Callable[[], str]
) -> None:
    broker = own_broker({"auto.create.topics.enable": "false"})
    missing = name()
    start = time.monotonic()
    said = failed("produce", missing, "--timeout", "1", "--bootstrap", broker.bootstrap, input=b"x\n")
    assert f"there is no topic '{missing}'" in said
    assert time.monotonic() - start < 20


def test_a_line_without_its_key_is_named_and_what_came_before_is_written(
    on: tuple[str, str], topic: Callable[..., str]
) -> None:
    fresh = topic()
    shown = execute("produce", fresh, "--key-separator", ":", *on, input=b"a:1\nb:2\nnone\nc:3\n")
    assert shown.returncode == 1
    assert shown.stderr == b"Error: line 3 has no key separator ':'\n"
    assert shown.stdout == f"2 records written to {fresh}\n".encode()
    assert ok("consume", fresh, *on) == b"1\n2\n"


def test_a_record_the_broker_refuses_is_counted_and_named(
    on: tuple[str, str], topic: Callable[..., str]
) -> None:
    fresh = topic(config={"max.message.bytes": "2000"})
    shown = execute("produce", fresh, "--json", *on, input=b"ok\n" + b"x" * 5000 + b"\n")
    assert shown.returncode == 1
    counted = json.loads(shown.stdout)
    assert (counted["records"], counted["failed"]) == (1, 1)
    assert shown.stderr.startswith(b"Error: 1 record was not written: ") and shown.stderr.count(b"\n") == 1


def start(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen([TIDELOG, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def test_following_prints_what_is_written_later_and_ends_cleanly_on_ctrl_c(
    on: tuple[str, str], topic: Callable[..., str]
) -> None:
    fresh = topic()
    ok("produce", fresh, *on, input=b"old\n")
    with start("consume", fresh, "--follow", *on) as following:
        assert following.stdout is not None and following.stderr is not None
        assert following.stdout.readline() == b"old\n"
        ok("produce", fresh, *on, input=b"new\n")
        assert following.stdout.readline() == b"new\n"
        following.send_signal(signal.SIGINT)
        assert following.wait(20) == 0
        assert following.stdout.read() == b"" and following.stderr.read() == b""


def test_reading_from_the_end_waits_for_what_comes(on: tuple[str, str], topic: Callable[..., str]) -> None:
    fresh = topic()
    ok("produce", fresh, *on, input=b"old\n")
    with start("consume", fresh, "--from", "end", "--max", "1", *on) as following:
        assert following.stdout is not None
        # It is not visible from outside when it has found the end: write until it has seen one.
        while following.poll() is None:
            ok("produce", fresh, *on, input=b"new\n")
        assert following.stdout.read() == b"new\n"
        assert following.returncode == 0


def test_a_reader_that_leaves_early_ends_it_quietly(on: tuple[str, str], topic: Callable[..., str]) -> None:
    fresh = topic()
    ok("produce", fresh, *on, input=b"".join(b"line %d\n" % at for at in range(50_000)))
    with start("consume", fresh, "--follow", *on) as following:
        assert following.stdout is not None and following.stderr is not None
        assert following.stdout.readline() == b"line 0\n"
        following.stdout.close()
        assert following.wait(20) == 0
        assert following.stderr.read() == b""


def test_lines_are_written_as_they_come_and_ctrl_c_delivers_what_was_read(
    on: tuple[str, str], topic: Callable[..., str]
) -> None:
    fresh = topic()
    with start("produce", fresh, *on, stdin=subprocess.PIPE) as writing:
        assert writing.stdin is not None and writing.stdout is not None and writing.stderr is not None
        writing.stdin.write(b"early\n")
        writing.stdin.flush()
        wait_until(lambda: ok("consume", fresh, *on) == b"early\n", 20, "the first line is there")
        writing.stdin.write(b"late\nunfinished")
        writing.stdin.flush()
        wait_until(lambda: b"late" in ok("consume", fresh, *on), 20, "the second line is there")
        writing.send_signal(signal.SIGINT)
        assert writing.wait(20) == 130
        assert writing.stdout.read() == f"2 records written to {fresh}\n".encode()
        assert writing.stderr.read() == b""


def test_a_broker_that_goes_away_ends_the_command_within_its_timeout(own_broker: BrokerFactory) -> None:
    broker = own_broker()
    on = ("--bootstrap", broker.bootstrap, "--timeout", "2")
    ok("topics", "create", "orders", *on)
    ok("produce", "orders", *on, input=b"x\n")
    with start("consume", "orders", "--follow", *on) as following:
        assert following.stdout is not None and following.stderr is not None
        assert following.stdout.readline() == b"x\n"
        broker.kill()
        assert following.wait(30) == 1
        said = following.stderr.read().decode()
        assert said.startswith("Error: cannot reach a broker at") and said.count("\n") == 1


def test_a_broker_that_restarts_is_found_again(own_broker: BrokerFactory) -> None:
    broker = own_broker()
    on = ("--bootstrap", broker.bootstrap, "--timeout", "60")
    ok("topics", "create", "orders", *on)
    reading = start("consume", "orders", "--follow", "--max", "2", *on)
    writing = start("produce", "orders", *on, stdin=subprocess.PIPE)
    with reading, writing:
        assert writing.stdin is not None and reading.stdout is not None and writing.stdout is not None
        writing.stdin.write(b"before\n")
        writing.stdin.flush()
        assert reading.stdout.readline() == b"before\n"
        broker.stop()
        writing.stdin.write(b"after\n")
        writing.stdin.close()
        broker.start()
        assert reading.stdout.readline() == b"after\n"
        assert (writing.wait(60), reading.wait(60)) == (0, 0)
        assert writing.stdout.read() == b"2 records written to orders\n"


def test_the_environment_names_the_broker(bootstrap: str, topic: Callable[..., str]) -> None:
    fresh = topic()
    shown = subprocess.run(
        [TIDELOG, "topics", "list"],
        capture_output=True,
        env={**os.environ, "TIDELOG_BOOTSTRAP": bootstrap},
        timeout=60,
    )
    assert fresh.encode() in shown.stdout
