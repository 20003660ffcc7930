"""The text that Prometheus reads, with names that clients chose."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tidelog.gateways.metrics.families import FAMILIES
from tidelog.gateways.metrics.page import Page

NASTY = ['quo"te', "back\\slash", "new\nline", "<script>", "{}=,", "ümlaut", "lone \ud800"]


def parsed(page: Page) -> dict[str, list[tuple[dict[str, str], float]]]:
    families = text_string_to_metric_families(b"".join(page.families()).decode())
    return {
        family.name: [(dict(sample.labels), sample.value) for sample in family.samples] for family in families
    }


@pytest.mark.parametrize("name", NASTY)
def test_a_name_stays_a_name_whatever_is_in_it(name: str) -> None:
    page = Page(10)
    page.put("mq_consumer_lag_messages", 5, name, "orders", 0)
    page.put("mq_leaders", 3)
    shown = name.encode("utf-8", "replace").decode()
    assert parsed(page) == {
        "mq_consumer_lag_messages": [({"group": shown, "topic": "orders", "partition": "0"}, 5)],
        "mq_leaders": [({}, 3)],
    }


def test_series_beyond_the_bound_are_left_out_and_counted() -> None:
    page = Page(3)
    for number in range(5):
        page.put("mq_group_members", number, f"g{number}")
    assert len(parsed(page)["mq_group_members"]) == 3
    assert page.left_out == 2


def test_a_histogram_has_buckets_sum_and_count() -> None:
    page = Page(10)
    page.put_histogram("mq_request_time_ms", (1, 5), [2, 3, 4], 12.5, "Fetch")
    text = b"".join(page.families()).decode()
    assert text.splitlines()[2:] == [
        'mq_request_time_ms_bucket{api="Fetch",le="1"} 2',
        'mq_request_time_ms_bucket{api="Fetch",le="5"} 3',
        'mq_request_time_ms_bucket{api="Fetch",le="+Inf"} 4',
        'mq_request_time_ms_sum{api="Fetch"} 12.5',
        'mq_request_time_ms_count{api="Fetch"} 4',
    ]


def test_every_metric_has_a_kind_and_words() -> None:
    for family in FAMILIES.values():
        assert family.kind in ("counter", "gauge", "histogram"), family.name
        assert family.doc.endswith("."), family.name
        assert family.name.startswith(("mq_", "process_")), family.name
        assert (family.kind == "counter") == family.name.endswith("_total"), family.name
