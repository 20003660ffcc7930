"""One member of a classic group.  Pure; `ClassicGroup` owns it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from tidelog.groups.classic.heartbeat_cadence import HeartbeatCadence
from tidelog.wire.messages.group_metadata_record import MemberMetadata

Protocols = Sequence[tuple[str, bytes]]
"""(name, metadata) pairs, in the member's order of preference."""


@dataclass(slots=True)
class ClassicMember:
    """`joining` and `syncing` stand for a JoinGroup or SyncGroup request of this member that waits for its answer.  A
    member is `new` until its first JoinGroup is answered: a client that gives up before that never sends a heartbeat."""

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    joining: Hashable | None = field(default=None, compare=False)
    syncing: Hashable | None = field(default=None, compare=False)
    new: bool = field(default=False, compare=False)
    waited: bool = field(
        default=False, compare=False
    )  # its JoinGroup answer was withheld for a generation, which happens only once
    cadence: HeartbeatCadence = field(default_factory=HeartbeatCadence, compare=False)

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def waits(self) -> bool:
        """True while a request of the member waits: the member is alive although it cannot send heartbeats."""
        return not self.new and (self.joining is not None or self.syncing is not None)

    def metadata(self, protocol: str | None) -> bytes:
        return next((data for name, data in self.protocols if name == protocol), b"")

    def vote(self, candidates: set[str]) -> str | None:
        return next((name for name, _ in self.protocols if name in candidates), None)

    def names(self) -> set[str]:
        return {name for name, _ in self.protocols}

    def recorded(self, protocol: str | None) -> MemberMetadata:
        return MemberMetadata(
            member_id=self.id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.metadata(protocol),
            assignment=self.assignment,
        )

    def recorded_as(self, recorded: ClassicMember, protocol: str | None) -> None:
        """Takes over what the member's record says, and keeps what no record holds: other protocols, a waiting request."""
        self.instance_id = recorded.instance_id
        self.client_id = recorded.client_id
        self.client_host = recorded.client_host
        self.rebalance_timeout_ms = recorded.rebalance_timeout_ms
        self.session_timeout_ms = recorded.session_timeout_ms
        self.assignment = recorded.assignment
        if (protocol or "", self.metadata(protocol)) != recorded.protocols[0]:
            self.protocols = recorded.protocols

    @staticmethod
    def of(stored: MemberMetadata, protocol: str | None) -> ClassicMember:
        rebalance_ms = stored.rebalance_timeout
        return ClassicMember(
            id=stored.member_id,
            instance_id=stored.group_instance_id,
            client_id=stored.client_id,
            client_host=stored.client_host,
            rebalance_timeout_ms=stored.session_timeout if rebalance_ms == -1 else rebalance_ms,
            session_timeout_ms=stored.session_timeout,
            protocols=((protocol or "", stored.subscription),),
            assignment=stored.assignment,
        )
