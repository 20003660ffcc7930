"""`tidelog partitions recover`: what excludes each other, and what its table says."""

from __future__ import annotations

import pytest

from tests.unit.cli.commands import invoke
from tidelog.cli.partitions.recover import _chosen, _show
from tidelog.cli.session import Failure
from tidelog.client.admin.replica_states import PartitionState, ReplicaDoubt, ReplicaLog
from tidelog.client.admin.unclean_election import ElectionChoices, choices
from tidelog.types import TopicPartition


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        ("--execute", 1, "--execute needs --elect"),
        ("--elect 2 --yes", 1, "--yes needs --execute"),
        ("--partition 0", 1, "--partition needs exactly one --topic"),
        ("--partition 0 --topic a --topic b", 1, "--partition needs exactly one --topic"),
        ("--elect any", 2, "neither the id of a broker nor 'best'"),
        ("--partition -1 --topic a", 2, "-1 is not in the range"),
    ],
)
def test_no_option_is_passed_over_in_silence(words: str, code: int, complaint: str) -> None:
    # Nobody listens there: it is refused before anybody is asked.
    done = invoke("partitions", "recover", *words.split(), "--bootstrap", "127.0.0.1:1")
    assert done.exit_code == code and complaint in done.output


def offline(running: tuple[int, ...]) -> ElectionChoices:
    doubts = (ReplicaDoubt(1, -1, -1, "new-directory"), ReplicaDoubt(2, 4, 90, "power"))
    state = PartitionState("orders", 2, -1, 7, (1, 2, 3), (1,), (2,), doubts, ())
    logs = {1: ReplicaLog(0, 0, 0, ()), 2: ReplicaLog(90, 80, 1, ((3, 0), (4, 60)))}
    return choices(state, running, {node: logs.get(node) for node in running})


def test_the_table_says_what_each_choice_costs(capsys: pytest.CaptureFixture[str]) -> None:
    _show([offline((1, 2))])
    head, columns, one, two, three, best = capsys.readouterr().out.rstrip().splitlines()
    assert head == "orders-2 has no leader, and no replica is known to have all of its records"
    assert columns.split("  ")[0] == "BROKER"
    assert "90 offsets (80 committed); unknown: what broker 3 has" in one and "new, empty directory" in one
    assert best == "broker 2 is the best choice"
    assert "nothing known; unknown: what broker 3 has" in two and "its machine went down" in two
    assert three.split() == ["3", "no", "-", "-", "-", "-", "-", "-"]


def test_only_a_replica_that_runs_and_has_a_log_can_be_elected() -> None:
    name = TopicPartition("orders", 2)
    assert _chosen([offline((1, 2))], "best") == {name: 2}
    assert _chosen([offline((1, 2))], 1) == {name: 1}
    with pytest.raises(Failure, match="cannot be led by broker 3"):
        _chosen([offline((1, 2, 3))], 3)
    with pytest.raises(Failure, match="has no best choice"):
        _chosen([offline(())], "best")
