"""What a client pushes when, by the answers of its broker."""

from __future__ import annotations

from uuid import UUID

import pytest

from tidelog import errors
from tidelog.client.telemetry.otlp_encoder import ClientMetric
from tidelog.client.telemetry.subscription import ASK_AGAIN_MS, TelemetrySubscription
from tidelog.wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsResponse

SECOND_NS = 1_000_000_000
ID = UUID(int=7)


def answer(
    *metrics: str, error: int = 0, subscription: int = 3, delta: bool = True
) -> GetTelemetrySubscriptionsResponse:
    return GetTelemetrySubscriptionsResponse(
        error_code=error,
        client_instance_id=ID,
        subscription_id=subscription,
        accepted_compression_types=[4, 3],
        push_interval_ms=10_000,
        telemetry_max_bytes=1_000,
        delta_temporality=delta,
        requested_metrics=list(metrics),
    )


def subscribed(*metrics: str, delta: bool = True) -> TelemetrySubscription:
    subscription = TelemetrySubscription(0)
    subscription.told(answer(*metrics, delta=delta), 0.5)
    return subscription


def total(value: float, name: str = "a.total") -> ClientMetric:
    return ClientMetric(name, value, total=True)


def values(subscription: TelemetrySubscription, *metrics: ClientMetric, at_s: int = 1) -> list[float]:
    return [metric.value for metric in subscription.chosen(metrics, at_s * SECOND_NS)[0]]


def test_the_first_push_comes_after_half_to_one_and_a_half_intervals() -> None:
    waits = [TelemetrySubscription(0).told(answer("*"), chance) for chance in (0.0, 0.25, 1.0)]
    assert waits == [5_000, 7_500, 15_000]
    subscription = subscribed("*")
    assert subscription.client_instance_id == ID and subscription.wants_metrics
    assert subscription.pushed(0, SECOND_NS) == 10_000
    assert subscription.told(answer("*"), 0.5) == 10_000  # the same subscription: it is in step


def test_a_cluster_that_wants_nothing_is_asked_again_after_the_interval() -> None:
    subscription = subscribed()
    assert not subscription.wants_metrics and subscription.known
    assert subscription.told(answer(), 0.5) == 10_000


def test_only_metrics_that_begin_as_asked_are_pushed() -> None:
    metrics = [total(1, "org.apache.kafka.producer.x"), total(2, "org.apache.kafka.consumer.x")]
    assert values(subscribed("org.apache.kafka.producer."), *metrics) == [1]
    assert values(subscribed("*"), *metrics) == values(subscribed(""), *metrics) == [1, 2]


def test_totals_are_pushed_as_the_growth_since_the_last_push_that_arrived() -> None:
    subscription = subscribed("*")
    assert values(subscription, total(5)) == [5]
    subscription.pushed(errors.ThrottlingQuotaExceeded.code, SECOND_NS)
    assert values(subscription, total(7), at_s=2) == [7]  # the first push was refused
    subscription.pushed(0, 2 * SECOND_NS)
    chosen, interval = subscription.chosen([total(9)], 3 * SECOND_NS)
    assert [metric.value for metric in chosen] == [2]
    assert (interval.begin_ns, interval.end_ns, interval.delta) == (2 * SECOND_NS, 3 * SECOND_NS, True)


def test_totals_are_pushed_as_they_are_where_the_cluster_wants_that() -> None:
    subscription = subscribed("*", delta=False)
    assert values(subscription, total(5)) == [5]
    subscription.pushed(0, SECOND_NS)
    chosen, interval = subscription.chosen([total(9)], 3 * SECOND_NS)
    assert [metric.value for metric in chosen] == [9] and interval == (0, 3 * SECOND_NS, False)


def test_a_clock_that_goes_back_makes_no_interval_that_ends_before_it_begins() -> None:
    subscription = subscribed("*")
    subscription.pushed(0, 5 * SECOND_NS)
    interval = subscription.chosen([total(1)], SECOND_NS)[1]
    assert interval.begin_ns == interval.end_ns == 5 * SECOND_NS


@pytest.mark.parametrize(
    ("error", "wait_ms", "known"),
    [
        (errors.UnknownSubscriptionId, 0, False),
        (errors.UnsupportedCompressionType, 0, False),
        (errors.TelemetryTooLarge, 10_000, True),
        (errors.ThrottlingQuotaExceeded, 10_000, True),
        (errors.InvalidRecord, 10_000, True),
        (errors.InvalidRequest, None, True),
        (errors.UnsupportedVersion, None, True),
    ],
)
def test_each_refusal_of_a_push_has_its_consequence(
    error: type[errors.TidelogError], wait_ms: int | None, known: bool
) -> None:
    subscription = subscribed("*")
    assert subscription.pushed(error.code, SECOND_NS) == wait_ms
    assert subscription.known == known


def test_a_refused_question_is_repeated_later_or_never() -> None:
    for error, wait_ms in (
        (errors.ThrottlingQuotaExceeded, ASK_AGAIN_MS),
        (errors.InvalidRequest, None),
        (errors.InvalidConfig, None),
        (errors.UnsupportedVersion, None),
    ):
        assert TelemetrySubscription(0).told(answer(error=error.code), 0.5) == wait_ms


def test_the_first_codec_of_the_broker_that_works_is_used() -> None:
    def compress(codec: int, data: bytes) -> bytes:
        if codec == 4:
            raise errors.UnsupportedCompressionType("no zstd here")
        return b"lz4" + data

    subscription = subscribed("*")
    assert subscription.compressed(b"x", compress) == (3, b"lz4x")
    subscription.codecs = (4,)
    assert subscription.compressed(b"x", compress) == (0, b"x")
