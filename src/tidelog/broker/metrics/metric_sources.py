"""The parts of a broker that only metrics read, in one object.  Built in `app.lifecycle`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidelog.broker.metrics.load_meter import LoadMeter
from tidelog.broker.server import Server
from tidelog.broker.tenant_storage import TenantStorage
from tidelog.metadata.isr_and_election_counts import IsrAndElectionCounts
from tidelog.replication.peers import Peers
from tidelog.replication.repair import Repair
from tidelog.replication.tiering import TieringCounters
from tidelog.storage.compaction.cleaner import Cleaner
from tidelog.storage.integrity.scrubber import Scrubber
from tidelog.storage.tiers.tiers import Tiers


@dataclass(frozen=True, slots=True)
class RemoteSources:
    tiers: Tiers
    counters: TieringCounters


@dataclass(frozen=True, slots=True)
class MetricSources:
    server: Server
    load_meter: LoadMeter
    shifts: IsrAndElectionCounts
    cleaners: Sequence[Cleaner]
    peers: Peers
    scrubbers: Sequence[Scrubber]
    repair: Repair
    tenant_storage: TenantStorage
    remote: RemoteSources | None
    """None: the broker has no remote storage."""
