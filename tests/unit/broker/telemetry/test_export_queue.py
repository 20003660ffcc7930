"""Metrics on their way to an OTLP receiver: bounds, order, retries, and the attributes of the client."""

from __future__ import annotations

import pytest

from tests.otlp_messages import MetricsData, metrics_of, resource_of
from tidelog.broker.telemetry import export_queue
from tidelog.broker.telemetry.export_queue import ExportQueue, retry_after_s, with_attributes
from tidelog.client.telemetry.otlp_encoder import ClientMetric, SumInterval, encode_metrics

WHEN = SumInterval(1, 2, delta=True)


def filled(*bodies: bytes, bytes_max: int = 1_000) -> ExportQueue:
    queue = ExportQueue()
    for body in bodies:
        queue.put(body, bytes_max)
    return queue


def test_waiting_pushes_leave_together_in_order() -> None:
    queue = filled(b"aa", b"b", b"c")
    assert queue.queued_bytes == 4
    export = queue.take()
    assert (export.body, export.pushes, queue.queued_bytes, len(queue)) == (b"aabc", 3, 0, 0)
    queue.accepted(export)
    assert (queue.exported, queue.exported_bytes) == (3, 4)


def test_a_request_is_bounded_unless_one_push_is_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_queue, "EXPORT_BYTES_MAX", 3)
    queue = filled(b"aaaaa", b"bb", b"c", b"d")
    assert [queue.take().body for _ in range(3)] == [b"aaaaa", b"bbc", b"d"]


def test_the_oldest_metrics_are_given_up_for_new_ones() -> None:
    queue = filled(b"aaa", b"bbb", b"ccc", bytes_max=7)
    assert queue.take().body == b"bbbccc" and queue.dropped == {"queue_full": 1}
    queue = filled(b"aaa", b"b" * 8, bytes_max=7)
    assert not len(queue) and queue.queued_bytes == 0 and queue.dropped == {"queue_full": 2}


def test_what_could_not_be_sent_is_sent_first_the_next_time() -> None:
    queue = filled(b"a", b"b")
    export = queue.take()
    queue.put(b"c", 1_000)
    queue.failed(export, 1_000, 0.5, None)
    assert queue.retries == 1
    again = queue.take()
    assert (again.body, again.pushes) == (b"abc", 3)


def test_what_could_not_be_sent_gives_way_to_newer_metrics() -> None:
    queue = filled(b"aa", bytes_max=3)
    export = queue.take()
    queue.put(b"bb", 3)
    queue.failed(export, 3, 0.5, None)
    assert queue.take().body == b"bb" and queue.dropped == {"queue_full": 1}


def test_waits_grow_to_a_bound_and_follow_the_receiver() -> None:
    def wait_s(failures: int, chance: float = 1.0, after_s: float | None = None) -> float:
        queue = filled(b"a")
        for _ in range(failures):
            last = queue.failed(queue.take(), 1_000, chance, after_s)
        return last

    assert [wait_s(times) for times in (1, 2, 3, 20)] == [1, 2, 4, 30]
    assert wait_s(1, chance=0.0) == 0.5
    assert wait_s(1, after_s=45.0) == 45 and wait_s(1, after_s=1e9) == 300
    queue = filled(b"a")
    queue.failed(queue.take(), 1_000, 1.0, None)
    queue.accepted(queue.take())
    queue.put(b"b", 1_000)
    assert queue.failed(queue.take(), 1_000, 1.0, None) == 1


def test_a_refusal_is_final() -> None:
    queue = filled(b"a", b"b")
    queue.refused(queue.take())
    assert not len(queue) and queue.dropped == {"refused": 2}


@pytest.mark.parametrize(
    ("text", "seconds"), [("7", 7.0), ("", None), ("Wed, 21 Oct 2026", None), ("-1", None)]
)
def test_retry_after_is_read(text: str, seconds: float | None) -> None:
    assert retry_after_s({"retry-after": text}) == seconds


def test_resources_get_the_attributes_of_the_client_and_keep_their_own() -> None:
    pushed = encode_metrics([ClientMetric("a", 1)], {"group_id": "g"}, "1", WHEN)
    plain = encode_metrics([ClientMetric("b", 2, total=True)], {}, "1", WHEN)
    whole = with_attributes(pushed + plain, {"client_id": "biller"})
    first, second = MetricsData.FromString(whole).resource_metrics
    assert resource_of(first) == {"group_id": "g", "client_id": "biller"}
    assert resource_of(second) == {"client_id": "biller"}
    assert list(metrics_of(first)) == ["a"] and metrics_of(second)["b"].sum.data_points[0].as_double == 2
    assert with_attributes(b"", {"client_id": "x"}) == b""
