"""Feature levels, as Kafka's tools ask for them: what this broker supports, and what the cluster has agreed on.

Only one level of one feature exists here: metadata.version 30, Kafka 4.3's.  Features of groups, transactions and
share groups are absent until those are built, so clients do not count on them.  Nothing can be raised or lowered,
so there is no state to keep."""

from __future__ import annotations

METADATA_VERSION = "metadata.version"
LEVEL_OF_KAFKA_4_3 = 30

SUPPORTED: dict[str, tuple[int, int]] = {METADATA_VERSION: (LEVEL_OF_KAFKA_4_3, LEVEL_OF_KAFKA_4_3)}
FINALIZED: dict[str, int] = {METADATA_VERSION: LEVEL_OF_KAFKA_4_3}
