"""Where the figures of a broker are that no handler needs, for whoever shows them.  Built in `app.lifecycle`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidelog.broker.pulse import Pulse
from tidelog.broker.server import Server
from tidelog.broker.tenant_storage import TenantStorage
from tidelog.metadata.isr_and_election_counts import IsrAndElectionCounts
from tidelog.replication.peers import Peers
from tidelog.replication.repair import Repair
from tidelog.storage.compaction.cleaner import Cleaner
from tidelog.storage.integrity.scrubber import Scrubber


@dataclass(frozen=True, slots=True)
class Figures:
    server: Server
    pulse: Pulse
    shifts: IsrAndElectionCounts
    cleaners: Sequence[Cleaner]
    peers: Peers
    scrubbers: Sequence[Scrubber]
    repair: Repair
    tenant_storage: TenantStorage
