"""Feature levels, for Kafka's tools: the levels that this broker supports, and the finalized levels of the cluster.

Tidelog has one level of each feature: Kafka 4.3's.  No level can be raised or lowered, so there is no state to keep."""

from __future__ import annotations

METADATA_VERSION = "metadata.version"
LEVEL_OF_KAFKA_4_3 = 30

GROUP_VERSION = "group.version"
CONSUMER_PROTOCOL = 1

TRANSACTION_VERSION = "transaction.version"
EPOCH_BUMPS = 2  # the end of every transaction gives its producer a new epoch

SHARE_VERSION = "share.version"
SHARE_GROUPS = 1

STREAMS_VERSION = "streams.version"
STREAMS_GROUPS = 1

ELR_VERSION = "eligible.leader.replicas.version"
ELIGIBLE_LEADERS = 1  # members that leave too small an ISR stay eligible leaders

FINALIZED: dict[str, int] = {
    METADATA_VERSION: LEVEL_OF_KAFKA_4_3,
    GROUP_VERSION: CONSUMER_PROTOCOL,
    SHARE_VERSION: SHARE_GROUPS,
    STREAMS_VERSION: STREAMS_GROUPS,
    ELR_VERSION: ELIGIBLE_LEADERS,
    TRANSACTION_VERSION: EPOCH_BUMPS,
}
SUPPORTED: dict[str, tuple[int, int]] = {
    METADATA_VERSION: (LEVEL_OF_KAFKA_4_3, LEVEL_OF_KAFKA_4_3),
    GROUP_VERSION: (0, CONSUMER_PROTOCOL),
    SHARE_VERSION: (0, SHARE_GROUPS),
    STREAMS_VERSION: (0, STREAMS_GROUPS),
    ELR_VERSION: (0, ELIGIBLE_LEADERS),
    TRANSACTION_VERSION: (0, EPOCH_BUMPS),
}
