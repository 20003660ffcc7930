"""FindCoordinator: the coordinator of a group or of a transactional id, looked up when first needed, and again when
it has moved.  Groups and transactions get the connection to their coordinator here."""

from __future__ import annotations

from enum import IntEnum
from typing import TypeVar

from tidelog import errors
from tidelog.client.cluster.addresses import Address
from tidelog.client.cluster.cluster import Cluster
from tidelog.client.cluster.connections import Connections
from tidelog.client.cluster.response_errors import check
from tidelog.net.requester import Requester
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

T = TypeVar("T")

KEYS_VERSION_MIN = 4  # from here on one question may be about several
MOVED = (
    errors.NotCoordinator,
    errors.CoordinatorNotAvailable,
    errors.NetworkException,
    errors.RequestTimedOut,
)


class CoordinatorType(IntEnum):
    GROUP = 0
    TRANSACTION = 1


class CoordinatorLookup:
    def __init__(
        self, cluster: Cluster, kind: CoordinatorType, key: str, connections: Connections | None = None
    ) -> None:
        """`connections`: others than the cluster's own, for requests that are held at the coordinator."""
        self._cluster = cluster
        self._connections = connections
        self._kind = kind
        self._key = key
        self._address: Address | None = None

    async def connection(self) -> Requester:
        address = await self.address()
        if self._connections is not None:
            return await self._connections.get(address)
        return await self._cluster.at(address)

    async def address(self) -> Address:
        if self._address is None:
            self._address = await self._find()
        return self._address

    def failed(self, problem: errors.TidelogError) -> None:
        """Forgets the address if the error may mean that another broker is the coordinator now."""
        if isinstance(problem, MOVED):
            self._address = None

    async def _find(self) -> Address:
        connection = await self._cluster.any()
        version = connection.version_of(FindCoordinatorRequest)
        request = FindCoordinatorRequest(key=self._key, key_type=self._kind)
        if version >= KEYS_VERSION_MIN:
            request = FindCoordinatorRequest(key_type=self._kind, coordinator_keys=[self._key])
        answer = await connection.ask(request, FindCoordinatorResponse, version=version)
        subject = f"the coordinator of {self._kind.name.lower()} {self._key!r}"
        if version < KEYS_VERSION_MIN:
            check(answer.error_code, subject, answer.error_message)
            return Address(answer.host, answer.port)
        for coordinator in answer.coordinators:
            check(coordinator.error_code, subject, coordinator.error_message)
            return Address(coordinator.host, coordinator.port)
        raise errors.CoordinatorNotAvailable(f"{subject}: the broker's answer is empty")
