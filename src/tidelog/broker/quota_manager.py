"""Holds clients to their quotas: finds the budgets of a session, charges them, and says for how long it is throttled.

The gate owns the only one.  While no quota is set `active` is False, and that is all that the router looks at.  Budgets
are counted in `access.quota_budgets`; the router mutes connections and puts throttle times into answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Sequence
from time import perf_counter_ns
from types import coroutine
from typing import Any, TypeVar

from tidelog.access.quota_budgets import ByteBudget, MutationBudget, QuotaUse, QuotaUses, TimeBudget
from tidelog.access.quotas import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    QuotaLimit,
    Quotas,
    QuotaWindows,
)
from tidelog.access.tenants import Tenants
from tidelog.broker.session import Session

T = TypeVar("T")
U = TypeVar("U", bound=QuotaUse)
UNLIMITED_BYTES = 1 << 62
_NO_QUOTAS = Quotas({})
_NO_TENANTS = Tenants({})
PRODUCE, FETCH, REQUEST, MUTATION = KINDS = ("produce", "fetch", "request", "controller_mutation")
OF_BROKERS = frozenset((27, 83, 84, 85, 86, 87))
"""WriteTxnMarkers and the share group states: what brokers ask each other costs clients nothing."""


class SessionLimits:
    """The budgets that a session is charged to; None: no limit.  Found anew when one of the first four is another.  All
    users of a tenant share the budgets of the tenant."""

    __slots__ = (
        *("client_id", "fetch", "groups", "mutation", "principal", "produce", "quotas", "time"),
        *("tenant_fetch", "tenant_mutation", "tenant_produce", "tenant_time"),
    )

    def __init__(self, quotas: Quotas, principal: str, groups: Sequence[str], client_id: str | None) -> None:
        self.quotas = quotas
        self.principal = principal
        self.groups = groups
        self.client_id = client_id
        self.produce: ByteBudget | None = None
        self.fetch: ByteBudget | None = None
        self.time: TimeBudget | None = None
        self.mutation: MutationBudget | None = None
        self.tenant_produce: ByteBudget | None = None
        self.tenant_fetch: ByteBudget | None = None
        self.tenant_time: TimeBudget | None = None
        self.tenant_mutation: MutationBudget | None = None


class QuotaManager:
    def __init__(
        self,
        quotas: Callable[[], Quotas] = lambda: _NO_QUOTAS,
        windows: Callable[[], QuotaWindows] = QuotaWindows,
        mutation_windows: Callable[[], QuotaWindows] = QuotaWindows,
        now_ms: Callable[[], int] = lambda: 0,
        tenants: Callable[[], Tenants] = lambda: _NO_TENANTS,
    ) -> None:
        """`quotas` and `tenants` answer the same object until a quota changes; `now_ms` never goes back."""
        self._tenants = tenants
        self._quotas = quotas
        self.windows = windows
        self._mutation_windows = mutation_windows
        self._now_ms = now_ms
        self._known = _NO_QUOTAS
        self.active = False
        """False: no client has a quota."""
        self.throttled: Counter[str] = Counter()
        """How many requests, by kind."""
        self.throttle_ms: Counter[str] = Counter()
        self._produce = QuotaUses(lambda rate, _: ByteBudget(rate, windows()))
        self._fetch = QuotaUses(lambda rate, _: ByteBudget(rate, windows()))
        self._time = QuotaUses(lambda rate, _: TimeBudget(rate, windows()))
        self._mutation = QuotaUses(lambda rate, now: MutationBudget(rate, mutation_windows(), now))

    def learned(self) -> bool:
        """Quotas may have changed; true when they have."""
        quotas = self._quotas()
        if quotas is self._known:
            return False
        self._known = quotas
        self.active = quotas.limits_clients
        return True

    # Charges.  Each returns for how many milliseconds the client is throttled.

    def charge_produce(self, session: Session, size: int) -> int:
        limits, now_ms = self._limits_of(session), self._now_ms()
        throttle_ms = self._charge_time(session, limits, now_ms)
        if limits.produce is not None:
            by_bytes = limits.produce.charge_holder(session, size, now_ms)
            if limits.time is not None or limits.tenant_time is not None:
                # Requests that native code answers would not be measured.
                limits.produce.leave(session)
            throttle_ms = max(throttle_ms, self._counted(PRODUCE, by_bytes))
        elif limits.time is None and limits.tenant_time is None and limits.tenant_produce is None:
            session.produce_bytes_left = UNLIMITED_BYTES
        if limits.tenant_produce is not None:
            if limits.produce is not None:
                limits.produce.leave(session)  # grants would pass by the budget of the tenant
            throttle_ms = max(throttle_ms, self._counted(PRODUCE, limits.tenant_produce.charge(size, now_ms)))
        return throttle_ms

    def charge_request(self, session: Session, api_key: int) -> int:
        """What the session's requests before this one took."""
        limits = self._limits_of(session)
        return 0 if api_key in OF_BROKERS else self._charge_time(session, limits, self._now_ms())

    def fetch_over(self, session: Session) -> int:
        """A fetch that comes now gets no records when this is not 0."""
        limits, now_ms = self._limits_of(session), self._now_ms()
        throttle_ms = self._charge_time(session, limits, now_ms)
        by_bytes = max(
            0 if budget is None else budget.over_ms(now_ms) for budget in (limits.fetch, limits.tenant_fetch)
        )
        return max(throttle_ms, self._counted(FETCH, by_bytes))

    def fetch_bytes_max(self, session: Session) -> int:
        limits = self._limits_of(session)
        return min(
            UNLIMITED_BYTES if budget is None else budget.bytes_max
            for budget in (limits.fetch, limits.tenant_fetch)
        )

    def charge_fetch(self, session: Session, size: int) -> int:
        limits, now_ms = self._limits_of(session), self._now_ms()
        waits_ms = [
            budget.charge(size, now_ms)
            for budget in (limits.fetch, limits.tenant_fetch)
            if budget is not None
        ]
        return self._counted(FETCH, max(waits_ms, default=0))

    def charge_mutation(self, session: Session, partitions: int, strict: bool) -> int:
        """`strict`: the change may only be made when this is 0."""
        if not self.active:
            return 0
        limits, now_ms = self._limits_of(session), self._now_ms()
        if partitions <= 0:
            return 0
        throttle_ms = 0
        for mutation in (limits.tenant_mutation, limits.mutation):
            if mutation is not None and not (strict and throttle_ms):
                throttle_ms = max(throttle_ms, mutation.charge(partitions, strict, now_ms))
        return self._counted(MUTATION, throttle_ms)

    def connection_rate(self, host: str) -> float | None:
        """New connections a second from this address; None: no limit."""
        return self._known.connection_rate(host)

    def measures(self, session: Session) -> bool:
        """The time that requests of this session take is limited."""
        limits = self._limits_of(session)
        return limits.time is not None or limits.tenant_time is not None

    def renewed(self, session: Session) -> None:
        """The session is admitted, or the rules have changed."""
        self.ended(session)
        session.produce_bytes_left = 0 if self.active else UNLIMITED_BYTES

    def ended(self, session: Session) -> None:
        limits: SessionLimits | None = session.limits
        if limits is not None and limits.produce is not None:
            limits.produce.leave(session)

    def _charge_time(self, session: Session, limits: SessionLimits, now_ms: int) -> int:
        taken_ns, session.handler_ns = session.handler_ns, 0
        waits_ms = [
            budget.charge(taken_ns, now_ms)
            for budget in (limits.time, limits.tenant_time)
            if budget is not None
        ]
        return self._counted(REQUEST, max(waits_ms, default=0)) if waits_ms else 0

    def _counted(self, kind: str, throttle_ms: int) -> int:
        if throttle_ms > 0:
            self.throttled[kind] += 1
            self.throttle_ms[kind] += throttle_ms
        return throttle_ms

    def _limits_of(self, session: Session) -> SessionLimits:
        limits: SessionLimits | None = session.limits
        if (
            limits is None
            or limits.quotas is not self._known
            or limits.client_id != session.client_id
            or limits.principal != session.principal
            or limits.groups != session.groups
        ):
            limits = self._find(session)
        return limits

    def _find(self, session: Session) -> SessionLimits:
        self.ended(session)
        if session.limits is None:
            session.handler_ns = 0
        session.produce_bytes_left = 0
        limits = SessionLimits(self._known, session.principal, session.groups, session.client_id)
        limits.produce = self._budget(PRODUCER_BYTE_RATE, self._produce, self.windows, session)
        limits.fetch = self._budget(CONSUMER_BYTE_RATE, self._fetch, self.windows, session)
        limits.time = self._budget(REQUEST_PERCENTAGE, self._time, self.windows, session)
        limits.mutation = self._budget(
            CONTROLLER_MUTATION_RATE, self._mutation, self._mutation_windows, session
        )
        tenant = self._tenants().of(session.principal, session.groups)
        if tenant is not None:
            self._find_of_tenant(limits, tenant.name)
        session.limits = limits
        return limits

    def _find_of_tenant(self, limits: SessionLimits, tenant: str) -> None:
        limits.tenant_produce = self._of_tenant(PRODUCER_BYTE_RATE, self._produce, self.windows, tenant)
        limits.tenant_fetch = self._of_tenant(CONSUMER_BYTE_RATE, self._fetch, self.windows, tenant)
        limits.tenant_time = self._of_tenant(REQUEST_PERCENTAGE, self._time, self.windows, tenant)
        limits.tenant_mutation = self._of_tenant(
            CONTROLLER_MUTATION_RATE, self._mutation, self._mutation_windows, tenant
        )

    def _of_tenant(
        self, key: str, uses: QuotaUses[U], windows: Callable[[], QuotaWindows], tenant: str
    ) -> U | None:
        limit = self._known.tenant_limit(key, tenant)
        return None if limit is None else self._used(limit, uses, windows)

    def _used(self, limit: QuotaLimit, uses: QuotaUses[U], windows: Callable[[], QuotaWindows]) -> U:
        number, size_ms = windows()
        return uses.of(limit, self._now_ms(), number * size_ms)

    def _budget(
        self, key: str, uses: QuotaUses[U], windows: Callable[[], QuotaWindows], session: Session
    ) -> U | None:
        limit = self._known.limit(key, session.user, session.client_id or "")
        return None if limit is None else self._used(limit, uses, windows)


async def measured(work: Coroutine[Any, Any, T], session: Session) -> T:
    """`work`, with the time of each of its steps counted as time that the session's requests took."""
    return await _measured_steps(work, session)


@coroutine
def _measured_steps(work: Coroutine[Any, Any, T], session: Session) -> Generator[Any, Any, T]:
    step, value = work.send, None
    while True:
        began_ns = perf_counter_ns()
        try:
            waits_for = step(value)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]  # of `work`
        finally:
            session.handler_ns += perf_counter_ns() - began_ns
        try:
            value = yield waits_for
            step = work.send
        except BaseException as problem:
            step, value = work.throw, problem
