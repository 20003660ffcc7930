from __future__ import annotations

import pytest

from tests.unit.cli.top.frames import ONE, ZERO, frame, group, topic
from tidelog.cli.top.frame import BrokerSeen, Frame
from tidelog.cli.top.rows import broker_rows, group_rows, topic_rows
from tidelog.cli.top.window import FRAMES_MAX, LAGS_MAX, WINDOW_MS, FrameWindow
from tidelog.client.cluster.topology import Node
from tidelog.types import TopicPartition

ORDERS = topic("orders", 1, 2)


def seen(at_ms: int, end: int, size: int, *groups: object) -> BrokerSeen:
    return BrokerSeen(at_ms, {ZERO: end}, {ZERO: 0}, {ZERO: size}, groups)  # type: ignore[arg-type]


def test_rates_are_differences_over_the_time_between_answers() -> None:
    before = frame(0, {1: seen(0, 100, 1_000, group("g", p0=50))}, ORDERS)
    now = frame(2_100, {1: seen(2_000, 300, 5_000, group("g", p0=150))}, ORDERS)
    (row,) = topic_rows(before, now)
    assert (row.records_in_per_sec, row.bytes_in_per_sec) == (100, 2_000)
    assert row.records_out_per_sec == 50
    assert row.bytes_out_per_sec == pytest.approx(50 * 5_000 / 300)
    assert (row.records, row.size_bytes, row.groups, row.lag) == (300, 5_000, 1, 150)
    assert (row.partitions, row.replication_factor) == (2, 2)


def test_at_the_first_look_rates_are_not_known() -> None:
    now = frame(0, {1: seen(0, 100, 1_000, group("g", p0=50))}, ORDERS)
    (row,) = topic_rows(None, now)
    assert {row.records_in_per_sec, row.bytes_in_per_sec, row.records_out_per_sec} == {None}
    (behind,) = group_rows(None, now, {})
    assert (behind.lag, behind.lag_per_sec, behind.records_out_per_sec) == (50, None, None)


def test_a_topic_nobody_has_told_of_has_no_figures() -> None:
    (row,) = topic_rows(None, frame(0, {}, ORDERS))
    assert (row.records, row.size_bytes, row.lag, row.records_in_per_sec) == (None, None, None, None)


def test_a_broker_that_does_not_answer_has_no_rate_and_spoils_no_other() -> None:
    silent = BrokerSeen(0, {ONE: 70}, {ONE: 0}, {ONE: 700})
    before = frame(0, {1: seen(0, 100, 1_000), 2: silent}, ORDERS)
    now = frame(2_000, {1: seen(2_000, 300, 3_000), 2: silent}, ORDERS, problems={2: "does not answer"})
    (row,) = topic_rows(before, now)
    assert (row.records_in_per_sec, row.records) == (100, 370)
    first, second = broker_rows(before, now)
    assert (first.records_in_per_sec, first.problem) == (100, None)
    assert (second.records_in_per_sec, second.problem, second.size_bytes) == (None, "does not answer", 700)


def test_what_shrank_did_not_grow() -> None:
    before = frame(0, {1: seen(0, 100, 9_000, group("g", p0=90))}, ORDERS)
    now = frame(1_000, {1: seen(1_000, 40, 100, group("g", p0=0))}, ORDERS)
    (row,) = topic_rows(before, now)
    assert (row.records_in_per_sec, row.bytes_in_per_sec, row.records_out_per_sec) == (0, 0, 0)


def test_a_partition_that_moved_is_counted_once_by_its_later_leader() -> None:
    old, new = topic("orders", 1), topic("orders", 2)
    before = frame(0, {1: BrokerSeen(0, {ZERO: 100}, {ZERO: 0})}, old)
    now = frame(
        2_000,
        {2: BrokerSeen(2_000, {ZERO: 120}, {ZERO: 0}), 1: BrokerSeen(1_000, {ZERO: 110}, {ZERO: 0})},
        new,
    )
    (row,) = topic_rows(before, now)
    assert (row.records_in_per_sec, row.records) == (10, 120)


def test_lag_counts_only_what_can_still_be_read() -> None:
    broker = BrokerSeen(0, {ZERO: 100}, {ZERO: 80}, groups=(group("g", p0=10),))
    (row,) = group_rows(None, frame(0, {1: broker}, ORDERS), {})
    assert row.lag == 20


def test_a_share_group_is_as_far_behind_as_its_coordinator_counts() -> None:
    broker = BrokerSeen(0, {ZERO: 100}, {ZERO: 0}, groups=(group("g", {ZERO: 7}, p0=10),))
    (row,) = group_rows(None, frame(0, {1: broker}, ORDERS), {})
    assert (row.lag, row.type) == (7, "share")


def test_the_trend_of_lag_says_when_it_is_gone() -> None:
    before = frame(0, {1: seen(0, 1_000, 0, group("g", p0=0))}, ORDERS)
    now = frame(10_000, {1: seen(10_000, 1_000, 0, group("g", p0=200))}, ORDERS)
    (row,) = group_rows(before, now, {})
    assert (row.lag, row.lag_per_sec, row.records_out_per_sec, row.caught_up_sec) == (800, -20, 20, 40)
    (idle,) = group_rows(now, before, {})
    assert idle.caught_up_sec is None
    done = frame(20_000, {1: seen(20_000, 1_000, 0, group("g", p0=1_000))}, ORDERS)
    assert group_rows(now, done, {})[0].caught_up_sec == 0


def test_a_group_without_offsets_has_no_lag() -> None:
    (row,) = group_rows(None, frame(0, {1: BrokerSeen(0, groups=(group("new"),))}, ORDERS), {})
    assert (row.lag, row.caught_up_sec, row.topics, row.partitions) == (None, None, 0, 0)


def test_brokers_have_what_the_metadata_says() -> None:
    lacking = topic("orders", 1, 1, -1, lacking=1)
    nodes = {1: Node(1, "a", 1, "r1")}
    first, second = broker_rows(None, frame(0, {1: BrokerSeen(0)}, lacking, nodes=nodes))
    assert (first.leaders, first.replicas, first.under_replicated, first.out_of_sync) == (2, 3, 1, 0)
    assert (first.controller, first.address, first.rack, first.problem) == (True, "a:1", "r1", None)
    assert (second.id, second.out_of_sync, second.problem) == (2, 1, "is not running")
    (row,) = topic_rows(None, frame(0, {}, lacking))
    assert (row.under_replicated, row.offline) == (1, 1)
    moving = frame(0, {}, lacking, adding={TopicPartition("orders", 0): (2,)})
    assert topic_rows(None, moving)[0].under_replicated == 0, "what a move adds does not lack yet"
    assert broker_rows(None, moving)[0].under_replicated == 0


def at(time_ms: int, end: int) -> Frame:
    return frame(time_ms, {1: seen(time_ms, end, 0, group("g", p0=0))}, ORDERS)


def test_rates_are_over_the_last_seconds() -> None:
    window = FrameWindow()
    for step in range(100):
        window.add(at(step * 500, 0))
    # What came in all at once counts for as long as the window is.
    assert window.add(at(50_000, 1_000)).topics[0].records_in_per_sec == pytest.approx(100, rel=0.2)
    later = [window.add(at(50_000 + step * 500, 1_000)).topics[0].records_in_per_sec for step in range(1, 40)]
    assert later[0] is not None and later[0] > 50 and later[-1] == 0
    assert len(window._frames) <= FRAMES_MAX + 2


def test_after_a_long_pause_the_last_look_is_what_counts() -> None:
    window = FrameWindow()
    window.add(at(0, 0))
    window.add(at(2_000, 100))
    assert window.add(at(102_000, 1_100)).topics[0].records_in_per_sec == 10


def test_lags_are_remembered_within_bounds() -> None:
    window = FrameWindow()
    for step in range(LAGS_MAX + 5):
        picture = window.add(at(step * WINDOW_MS, step))
    assert picture.groups[0].lags == tuple(range(5, LAGS_MAX + 5))
    empty = frame(10**9, {1: BrokerSeen(10**9)}, ORDERS)
    assert window.add(empty).groups == []
    assert window.add(at(10**9 + 1, 3)).groups[0].lags == (3,), "a group that comes again begins anew"


def test_other_topics_stay_apart() -> None:
    other = TopicPartition("payments", 0)
    topics = (ORDERS, topic("payments", 1))
    before = frame(0, {1: BrokerSeen(0, {ZERO: 0, other: 0})}, *topics)
    now = frame(1_000, {1: BrokerSeen(1_000, {ZERO: 5, other: 7})}, *topics)
    assert [one.records_in_per_sec for one in topic_rows(before, now)] == [5, 7]
    assert broker_rows(before, now)[0].records_in_per_sec == 12
