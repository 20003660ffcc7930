"""Which clients are asked for what, how often they may push, and what is kept of it."""

from __future__ import annotations

from uuid import UUID

import pytest

from tidelog import errors
from tidelog.broker.telemetry import client_metrics
from tidelog.broker.telemetry.client_metrics import ClientMetrics, TelemetryClient
from tidelog.broker.telemetry.otlp import MetricPoint
from tidelog.broker.telemetry.subscriptions import (
    ClientIdentity,
    check_subscription,
    subscription_of,
    wanted_metrics,
)
from tidelog.metadata.image.image import Configs

CLIENT = ClientIdentity(UUID(int=7), "billing-1", "librdkafka", "2.14.0", "10.0.0.9", "4000")


def subscriptions(**values: dict[str, str]) -> dict[str, Configs]:
    return {name: Configs(settings, 1) for name, settings in values.items()}


EVERY_SECOND = subscriptions(all={"metrics": "org.apache.kafka.producer.", "interval.ms": "1000"})


def of(stored: dict[str, Configs]) -> ClientMetrics:
    metrics = ClientMetrics()
    metrics.subscribed(stored)
    return metrics


def push(metrics: ClientMetrics, subscription: int, now_ms: int, **given: object) -> TelemetryClient:
    fields: dict[str, object] = {"codec": 0, "size": 10, "size_max": 100, "terminating": False, **given}
    return metrics.check_push(CLIENT, subscription, now_ms=now_ms, **fields)  # type: ignore[arg-type]


def test_all_subscriptions_that_match_count() -> None:
    stored = [
        subscription_of({"metrics": "a.,b.", "interval.ms": "5000", "match": "client_id=billing-.*"}),
        subscription_of({"metrics": "c.", "interval.ms": "2000", "match": "client_software_name=librdkafka"}),
        subscription_of(
            {"metrics": "d.", "interval.ms": "100", "match": "client_id=billing"}
        ),  # not all of it
    ]
    wanted = wanted_metrics(CLIENT, stored)
    assert (wanted.metrics, wanted.interval_ms) == (("a.", "b.", "c."), 2000)
    assert wanted.wants("a.total") and not wanted.wants("d.total")
    every = wanted_metrics(CLIENT, [*stored, subscription_of({"metrics": "*"})])
    assert every.metrics == ("*",) and every.wants("anything")
    assert every.subscription_id != wanted.subscription_id
    other = CLIENT._replace(client_instance_id=UUID(int=8))
    assert wanted_metrics(other, stored).subscription_id != wanted.subscription_id


def test_a_client_that_nothing_matches_pushes_nothing() -> None:
    wanted = wanted_metrics(CLIENT, [])
    assert (wanted.metrics, wanted.interval_ms) == ((), 300_000) and not wanted.wants("a")


@pytest.mark.parametrize(
    ("values", "refusal"),
    [
        ({"nothing": "1"}, errors.InvalidRequest),
        ({"interval.ms": "99"}, errors.InvalidRequest),
        ({"interval.ms": "soon"}, errors.InvalidConfig),
        ({"match": "client_id"}, errors.InvalidConfig),
        ({"match": "client_age=1"}, errors.InvalidConfig),
        ({"match": "client_id=("}, errors.InvalidConfig),
        ({"match": ",".join(["client_id=a"] * 101)}, errors.InvalidConfig),
    ],
)
def test_wrong_settings_are_refused(values: dict[str, str], refusal: type[Exception]) -> None:
    with pytest.raises(refusal):
        check_subscription(values)


def test_asking_and_pushing_too_soon_is_throttled() -> None:
    metrics = of(EVERY_SECOND)
    wanted = metrics.asks(CLIENT, 0)
    with pytest.raises(errors.ThrottlingQuotaExceeded):
        metrics.asks(CLIENT, 999)
    push(metrics, wanted.subscription_id, 500)  # the first push after asking may come at any time
    with pytest.raises(errors.ThrottlingQuotaExceeded):
        push(metrics, wanted.subscription_id, 1400)
    push(metrics, wanted.subscription_id, 1500)
    push(metrics, wanted.subscription_id, 1600, terminating=True)
    with pytest.raises(errors.InvalidRequest, match="terminates"):
        push(metrics, wanted.subscription_id, 9999)
    assert metrics.problems == {errors.ThrottlingQuotaExceeded.code: 2, errors.InvalidRequest.code: 1}


def test_a_changed_subscription_is_learned_of_at_once() -> None:
    metrics = of(EVERY_SECOND)
    before = metrics.asks(CLIENT, 0)
    push(metrics, before.subscription_id, 10)
    metrics.subscribed(subscriptions(all={"metrics": "*", "interval.ms": "1000"}))
    with pytest.raises(errors.UnknownSubscriptionId):
        push(metrics, before.subscription_id, 20)
    after = metrics.asks(CLIENT, 30)
    assert after.metrics == ("*",) and after.subscription_id != before.subscription_id
    push(metrics, after.subscription_id, 1020)


def test_wrong_pushes_get_kafkas_errors() -> None:
    metrics = of(EVERY_SECOND)
    wanted = metrics.asks(CLIENT, 0)
    with pytest.raises(errors.UnsupportedCompressionType):
        push(metrics, wanted.subscription_id, 0, codec=9)
    metrics.asks(CLIENT, 1)  # it may ask again at once, to learn of the codecs
    with pytest.raises(errors.TelemetryTooLarge):
        push(metrics, wanted.subscription_id, 1000, size=101)
    with pytest.raises(errors.InvalidRequest):
        metrics.check_push(CLIENT._replace(client_instance_id=UUID(int=0)), 1, 0, 1, 100, False, 0)


def test_increments_add_up_and_other_values_replace() -> None:
    metrics = of(EVERY_SECOND)
    wanted = metrics.asks(CLIENT, 0)
    client = push(metrics, wanted.subscription_id, 0)
    name = "org.apache.kafka.producer.x"
    points = [MetricPoint(name, (), 2, True), MetricPoint(f"{name}.now", (), 5, False)]
    metrics.pushed(client, points, 10)
    metrics.pushed(client, [*points, MetricPoint("unasked", (), 1, True)], 10)
    assert client.series == {(name, ()): 4, (f"{name}.now", ()): 5}
    assert (metrics.pushes, metrics.pushed_bytes) == (2, 20)


def test_clients_and_their_series_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_metrics, "CLIENTS_MAX", 3)
    monkeypatch.setattr(client_metrics, "SERIES_MAX", 2)
    metrics = of(subscriptions(all={"metrics": "*", "interval.ms": "1000"}))
    for number in range(5):
        metrics.asks(CLIENT._replace(client_instance_id=UUID(int=number + 1)), 0)
    assert [client.identity.client_instance_id.int for client in metrics.clients] == [3, 4, 5]
    client = metrics.clients[-1]
    metrics.pushed(client, [MetricPoint(str(number), (), 1, True) for number in range(5)], 1)
    assert len(client.series) == 2 and client.left_out == 3
