from __future__ import annotations

import pytest

from tests.unit.client.consumer.consumers import ORDERS, consumer_on, drain, fill
from tests.unit.client.stage import Stage, staged
from tidelog.client.consumer.metrics import ConsumerCounters


def test_rates_are_of_the_last_half_minute() -> None:
    figures = ConsumerCounters(0.0)
    figures.polled(0.0)
    figures.handed_out(0.0, 100)
    figures.polled(2.0)  # two seconds of processing
    figures.handed_out(2.0, 200)
    assert figures.rates(10.0) == (30.0, 0.2, 2_000.0)
    assert figures.rates(100.0) == (0.0, 0.0, 0.0)
    assert (figures.records, figures.polls) == (300, 2)


@staged
async def test_a_consumer_tells_what_it_has_done(stage: Stage) -> None:
    stage.broker()
    stage.world.create("orders")
    fill(stage, *[b"%d" % at for at in range(10)])
    async with consumer_on(stage) as consumer:
        consumer.assign([ORDERS])
        await drain(consumer, 10)
        figures = consumer.metrics()
        assert figures.records_consumed_total == 10 and figures.partitions_assigned == 1
        assert figures.lag == {ORDERS: 0} and figures.fetches_total >= 1
        assert figures.bytes_fetched_total > 100 and figures.commit_success_ratio == 1.0
        text = figures.prometheus({"client_id": 'a"b'})
        assert "# TYPE tidelog_consumer_records_consumed_total counter\n" in text
        assert 'tidelog_consumer_records_consumed_total{client_id="a\\"b"} 10\n' in text
        assert 'tidelog_consumer_lag_records{client_id="a\\"b",topic="orders",partition="0"} 0\n' in text
    with pytest.raises(Exception, match="closed"):
        consumer.metrics()
