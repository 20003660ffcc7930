"""Files that say what to move are looked at before anything is moved."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.cli.partitions.reassignment_file import BadPlan, read_plan


def ours(**changed: Any) -> str:
    return json.dumps({"moves": [{"topic": "t", "partition": 0, "to": [1, 2], **changed}]})


def test_what_the_command_prints_and_what_kafkas_tool_takes_say_the_same() -> None:
    printed = {"topic": "t", "partition": 3, "from": [1], "to": [2, 1], "bytes": None}
    theirs = {"topic": "t", "partition": 3, "replicas": [2, 1], "log_dirs": ["any", "any"]}
    expected = {("t", 3): (2, 1)}
    assert read_plan(json.dumps({"moves": [printed], "bytes": None})) == expected
    assert read_plan(json.dumps({"version": 1, "partitions": [theirs]})) == expected


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "neither"),
        ("{}", "neither"),
        ('{"moves": [], "partitions": []}', "neither"),
        ('{"moves": {}}', '"moves" is not a list'),
        ('{"version": 2, "partitions": []}', "its version is 2"),
        ('{"moves": [7]}', "move 1: it is not an object"),
        ('{"moves": [{"topic": "t", "partition": 0}]}', 'move 1: it has no "to"'),
        (ours(topic=""), '"topic" is ""'),
        (ours(topic=5), '"topic" is 5'),
        (ours(partition=0.7), '"partition" is 0.7'),
        (ours(partition="0"), '"partition" is "0"'),
        (ours(partition=True), '"partition" is true'),
        (ours(partition=-1), '"partition" is -1'),
        (ours(partition=99999999999), '"partition" is 99999999999'),
        (ours(to="12"), '"to" is "12"'),
        (ours(to=[]), '"to" is \\[\\]'),
        (ours(to=[1, 2.0]), "not a list of broker ids"),
        (ours(to=[2**31]), "not a list of broker ids"),
        (ours(to=[1, 1]), "one broker twice"),
        (ours(log_dirs=["/disk1", "any"]), '"log_dirs" names folders'),
    ],
)
def test_a_mistake_is_named(text: str, complaint: str) -> None:
    with pytest.raises(BadPlan, match=complaint):
        read_plan(text)


def test_a_partition_has_one_place_to_go() -> None:
    row = {"topic": "t", "partition": 0, "to": [1]}
    with pytest.raises(BadPlan, match="move 2: t-0 occurs twice"):
        read_plan(json.dumps({"moves": [row, row]}))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.lists(
        st.fixed_dictionaries({"topic": JSON, "partition": JSON, "to": JSON, "log_dirs": JSON}), max_size=3
    )
)
def test_whatever_is_in_it_what_comes_out_can_be_sent(rows: list[Any]) -> None:
    try:
        plan = read_plan(json.dumps({"moves": rows}))
    except BadPlan:
        return
    for (topic, partition), nodes in plan.items():
        assert topic and 0 <= partition < 2**31
        assert nodes and len(set(nodes)) == len(nodes) and all(0 <= node < 2**31 for node in nodes)
