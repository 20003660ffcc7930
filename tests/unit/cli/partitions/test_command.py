"""`tidelog partitions` and `brokers drain`: what excludes each other, and figures that are not known."""

from __future__ import annotations

import pytest

from tests.unit.cli.commands import invoke
from tidelog.cli.cluster.disks import Disks
from tidelog.cli.partitions.reassignments import Copied, copied, total
from tidelog.client.admin.log_dirs import LogDir
from tidelog.client.admin.partition_admin import Reassignment
from tidelog.types import TopicPartition

NAME = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("--verify --balance", "--balance has no meaning with --verify"),
        ("--cancel --remove-broker 7", "--remove-broker has no meaning with --cancel"),
        ("--verify --plan /dev/null", "--plan has no meaning with --verify"),
        ("--cancel --brokers 1", "--brokers has no meaning with --cancel"),
        ("--verify --wait", "--wait needs --execute"),
        ("--cancel --throttle 1M", "--throttle needs --execute"),
        ("--balance --wait", "--wait needs --execute"),
        ("--balance --throttle 1M", "--throttle needs --execute"),
        ("--balance --plan /dev/null", "--balance and --plan exclude each other"),
        ("--remove-broker 1 --plan /dev/null --execute", "--remove-broker and --plan exclude each other"),
        ("--balance --brokers 1", "--balance and --brokers exclude each other"),
        ("--plan /dev/null --topic t", "--topic has no meaning with --plan"),
        ("--execute --cancel", "--execute and --cancel exclude each other"),
        ("--generate --verify", "--generate and --verify exclude each other"),
        ("--execute", "say what to do"),
    ],
)
def test_no_option_is_passed_over_in_silence(words: str, complaint: str) -> None:
    # Nobody listens there: it is refused before anybody is asked.
    done = invoke("partitions", "reassign", *words.split(), "--bootstrap", "127.0.0.1:1")
    assert done.exit_code == 1 and done.output.startswith("Error: ") and complaint in done.output
    assert len(done.output.splitlines()) == 1


@pytest.mark.parametrize("option", ["--wait", "--throttle=1M"])
def test_draining_waits_for_nothing_that_has_not_begun(option: str) -> None:
    done = invoke("brokers", "drain", "3", option, "--bootstrap", "127.0.0.1:1")
    assert done.exit_code == 1 and "needs --execute" in done.output


def test_no_partition_has_a_number_that_cannot_be_sent() -> None:
    done = invoke("partitions", "elect", f"t:{'9' * 20}", "--bootstrap", "127.0.0.1:1")
    assert done.exit_code == 1 and "the partition number is too large" in done.output


def holding(sizes: dict[int, int]) -> Disks:
    return Disks({node: [LogDir("/d", {NAME: size}, 0, 0, None)] for node, size in sizes.items()}, {})


def test_what_a_silent_broker_holds_is_unknown_and_not_nothing() -> None:
    move = Reassignment(NAME, (1, 2, 3, 4), adding=(3, 4), removing=(1,))
    assert copied(move, holding({1: 100, 2: 100, 3: 100, 4: 30})) == (130, 200)
    assert copied(move, holding({1: 100, 2: 100, 3: 100})) == (None, 200)
    assert copied(move, holding({2: 100, 3: 120, 4: 0})) == (100, 200)
    assert copied(move, holding({3: 100, 4: 30})) == Copied(130, None)


def test_a_sum_says_when_it_is_not_all() -> None:
    assert total([]) == "0 B"
    assert total([1024, 1024]) == "2.0 KiB"
    assert total([1024, None]) == "at least 1.0 KiB"
    assert total([None]) == "unknown"
