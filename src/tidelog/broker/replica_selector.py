"""Which replica a consumer should read from: one in its own rack, if the leader knows one that is in sync and has what
it asks for.  Pure; asked by the leader when `replica.selector.class` says so."""

from __future__ import annotations

from tidelog.metadata.image.image import Image
from tidelog.replication.replica_state import ReplicaState
from tidelog.types import NodeId

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def closest(state: ReplicaState, image: Image, rack: str, offset: int) -> NodeId | None:
    """None: the leader itself, because it is as near as any."""
    leader = image.brokers.get(state.node)
    if not rack or (leader is not None and leader.rack == rack):
        return None
    near = []
    for node in state.in_sync:
        broker, end = image.brokers.get(node), state.follower_end(node)
        if (
            broker is not None
            and not broker.fenced
            and broker.rack == rack
            and end is not None
            and end >= offset
        ):
            near.append((-end, node))
    # The one that is furthest has most to give; of equals, always the same.
    return min(near)[1] if near else None
