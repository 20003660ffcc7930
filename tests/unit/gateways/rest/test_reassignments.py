"""Partitions that move, as REST tells them."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request

from tidelog.gateways.http.problem import Problem
from tidelog.gateways.rest import reassignments
from tidelog.gateways.rest.call import Rest

STILL = SimpleNamespace(index=0, adding=(), removing=())
MOVING = SimpleNamespace(index=1, adding=(4,), removing=(2, 3))
TOPICS = {
    name: SimpleNamespace(name=name, partitions=(STILL, MOVING) if name != "b" else (STILL,))
    for name in "cba"
}


class Image(Rest):
    """With these topics and nothing else."""

    def __init__(self) -> None:
        self.around = SimpleNamespace(cluster_id="one", image=SimpleNamespace(topics=TOPICS))  # type: ignore[assignment]


def told(handler: Any, **names: str) -> Any:
    scope = {
        "type": "http", "scheme": "http", "server": ("localhost", 8090), "path": "/", "headers": [], "query_string": b"",
        "path_params": {"cluster": "one", **names},
    }  # fmt: skip
    return json.loads(bytes(asyncio.run(handler(Image(), Request(scope))).body))


def test_only_what_moves_is_told() -> None:
    everything = told(reassignments.of_all)
    assert [(one["topic_name"], one["partition_id"]) for one in everything["data"]] == [("a", 1), ("c", 1)]
    assert told(reassignments.of_topic, topic="b")["data"] == []
    (one,) = told(reassignments.of_topic, topic="a")["data"]
    assert one == told(reassignments.of_partition, topic="a", partition="1")
    assert (one["adding_replicas"], one["removing_replicas"]) == ([4], [2, 3])
    assert one["metadata"]["resource_name"] == "crn:///kafka=one/topic=a/partition=1/reassignment"
    assert one["metadata"]["self"].endswith("/v3/clusters/one/topics/a/partitions/1/reassignment")
    with pytest.raises(Problem, match="is not being reassigned"):
        told(reassignments.of_partition, topic="a", partition="0")
