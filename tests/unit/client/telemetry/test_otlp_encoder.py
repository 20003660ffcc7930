"""What the client pushes, read by the broker's reader and by protobuf's own decoder."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.otlp_messages import MetricsData, metrics_of, resource_of
from tidelog.broker.telemetry.otlp import MetricPoint, read_metrics
from tidelog.client.telemetry.otlp_encoder import ClientMetric, SumInterval, encode_metrics

WHEN = SumInterval(1_700_000_000_000_000_000, 1_700_000_030_000_000_000, delta=True)


def test_sums_and_gauges_are_read_as_they_were_written() -> None:
    metrics = [
        ClientMetric("a.total", 5, total=True),
        ClientMetric("b.avg", 2.5, (("node_id", "1"),)),
        ClientMetric("b.avg", 3.5, (("node_id", "2"),)),
    ]
    data = encode_metrics(metrics, {"group_id": "billing"}, "1.0", WHEN)
    assert read_metrics(data, 10) == [
        MetricPoint("a.total", (), 5.0, True),
        MetricPoint("b.avg", (("node_id", "1"),), 2.5, False),
        MetricPoint("b.avg", (("node_id", "2"),), 3.5, False),
    ]
    cumulative = encode_metrics(metrics[:1], {}, "1.0", WHEN._replace(delta=False))
    assert read_metrics(cumulative, 10) == [MetricPoint("a.total", (), 5.0, False)]
    assert read_metrics(encode_metrics([], {}, "1.0", WHEN), 10) == []


def test_protobuf_reads_every_field() -> None:
    metrics = [ClientMetric("a.total", 5, total=True), ClientMetric("b.avg", 2.5, (("node_id", "1"),))]
    (of_client,) = MetricsData.FromString(
        encode_metrics(metrics, {"group_id": "g"}, "1.0", WHEN)
    ).resource_metrics
    assert resource_of(of_client) == {"group_id": "g"}
    (scope,) = of_client.scope_metrics
    assert (scope.scope.name, scope.scope.version) == ("org.apache.kafka", "1.0")
    read = metrics_of(of_client)
    (point,) = read["a.total"].sum.data_points
    assert (point.as_double, point.start_time_unix_nano, point.time_unix_nano) == (
        5,
        WHEN.begin_ns,
        WHEN.end_ns,
    )
    assert (read["a.total"].sum.aggregation_temporality, read["a.total"].sum.is_monotonic) == (1, True)
    (point,) = read["b.avg"].gauge.data_points
    assert (point.as_double, point.time_unix_nano, point.attributes[0].key) == (2.5, WHEN.end_ns, "node_id")
    (cumulative,) = MetricsData.FromString(
        encode_metrics(metrics, {}, "1.0", WHEN._replace(delta=False))
    ).resource_metrics
    assert metrics_of(cumulative)["a.total"].sum.aggregation_temporality == 2


@given(
    st.lists(
        st.tuples(
            st.text(min_size=1, max_size=40).filter(lambda name: name.isprintable()),
            st.floats(allow_nan=False),
            st.dictionaries(st.text(max_size=9), st.text(max_size=300), max_size=3),
        ),
        max_size=20,
    )
)
def test_any_metrics_are_read_as_they_were_written(
    given_metrics: list[tuple[str, float, dict[str, str]]],
) -> None:
    metrics = [
        ClientMetric(name, value, tuple(sorted(attributes.items())))
        for name, value, attributes in given_metrics
    ]
    written = encode_metrics(metrics, {"client": "\u00e9"}, "1.0", WHEN)
    expected = sorted((metric.name, metric.attributes, metric.value, False) for metric in metrics)
    assert sorted((p.name, p.attributes, p.value, p.adds) for p in read_metrics(written, 100)) == expected
