"""Client quotas: which one holds for whom, how a rate is measured, and how long a client that exceeds it waits.  Pure:
the clock is passed in.

The rules are Kafka's: the most specific entity that has the key decides; a rate is the average over
`quota.window.num` windows of `quota.window.size.seconds`; a client above it waits until the average is back at the
quota.  Changes of topics are paid from a token bucket instead, since one large change must not count for long."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from ipaddress import ip_address
from typing import NamedTuple

from tidelog.access.acls import plain_host
from tidelog.errors import InvalidRequest
from tidelog.metadata.tenants import check_tenant_name, check_value
from tidelog.wire.client_quotas import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    DEFAULT_ENTITY,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    TENANT,
    USER,
    QuotaEntity,
)

__all__ = [
    "CONNECTION_CREATION_RATE",
    "CONSUMER_BYTE_RATE",
    "CONTROLLER_MUTATION_RATE",
    "DEFAULT_ENTITY",
    "PRODUCER_BYTE_RATE",
    "REQUEST_PERCENTAGE",
    "QuotaBudget",
    "QuotaEntity",
    "QuotaLimit",
    "QuotaRate",
    "QuotaWindows",
    "Quotas",
    "TokenBucket",
    "check_entity",
    "check_quota",
]

UNLIMITED_BYTES = 1 << 62
_FRACTION = 1e-6
_LONG_MAX, _INT_MAX = float((1 << 63) - 1), (1 << 31) - 1
_CLIENT_KEYS = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE)


# What may be set


def check_entity(parts: Mapping[str, str | None]) -> QuotaEntity:
    """`parts` as in AlterClientQuotas: None is the default.  Errors in Kafka's words."""
    if not parts:
        raise InvalidRequest("Invalid empty client quota entity")
    for kind, name in parts.items():
        if kind not in (USER, CLIENT_ID, IP, TENANT):
            raise InvalidRequest(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise InvalidRequest(f"Empty {kind} not supported")
    if IP in parts and len(parts) > 1:
        raise InvalidRequest(
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
        )
    if TENANT in parts:
        if len(parts) > 1:
            raise InvalidRequest(
                "Invalid quota entity combination, a tenant should not be combined with others"
            )
        check_tenant_name(parts[TENANT] or "")
    ip = parts.get(IP)
    if ip is not None:
        try:
            ip_address(ip)
        except ValueError:
            raise InvalidRequest(f"{ip} is not a valid IP or resolvable host.") from None
    return QuotaEntity.of({kind: DEFAULT_ENTITY if name is None else name for kind, name in parts.items()})


def check_quota(entity: QuotaEntity, key: str, value: float) -> None:
    """InvalidRequest in Kafka's words when this entity cannot have this quota."""
    if entity.tenant is not None:
        check_value(key, value)
        return
    if key not in ((CONNECTION_CREATION_RATE,) if entity.ip is not None else _CLIENT_KEYS):
        raise InvalidRequest(f"Invalid configuration key {key}")
    if math.isnan(value):
        raise InvalidRequest(f"Quota {key} must be a number")
    if value <= 0:
        raise InvalidRequest(f"Quota {key} must be greater than 0")
    if key in (REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE):
        if math.isinf(value):
            raise InvalidRequest(f"Quota {key} must be a number")
        return
    kind, most = ("INT", _INT_MAX) if key == CONNECTION_CREATION_RATE else ("LONG", _LONG_MAX)
    if value > most:
        raise InvalidRequest(
            f"Proposed value for {key} is too large for {'an' if kind == 'INT' else 'a'} {kind}."
        )
    if abs(value - round(value)) > _FRACTION:
        raise InvalidRequest(f"{key} cannot be a fractional value.")


# Which one holds


class QuotaLimit(NamedTuple):
    """`per_second` for all sessions with the same `shared_by` (user, client id) together: an empty part is of no
    account."""

    per_second: float
    shared_by: tuple[str, str]


class Quotas:
    """All quotas of the cluster; made anew when `Image.quotas` is another object."""

    def __init__(
        self,
        quotas: Mapping[QuotaEntity, Mapping[str, float]],
        producer_default: float | None = None,
        consumer_default: float | None = None,
    ) -> None:
        """The defaults, in bytes a second, are for every client id that no other quota covers."""
        self._by_key: dict[str, dict[QuotaEntity, float]] = {}
        for entity, values in quotas.items():
            if entity.ip is not None:
                entity = QuotaEntity(ip=plain_host(entity.ip))
            for key, value in values.items():
                self._by_key.setdefault(key, {})[entity] = value
        self._defaults = {PRODUCER_BYTE_RATE: producer_default, CONSUMER_BYTE_RATE: consumer_default}

    @property
    def limits_clients(self) -> bool:
        """False: `limit` answers None whoever asks."""
        defaults = any(default is not None for default in self._defaults.values())
        return defaults or any(key in self._by_key for key in _CLIENT_KEYS)

    def tenant_limit(self, key: str, tenant: str) -> QuotaLimit | None:
        """What all users of a tenant share on this broker; None: no limit."""
        value = self._by_key.get(key, {}).get(QuotaEntity(tenant=tenant))
        # No name of a user has the character NUL.
        return None if value is None else QuotaLimit(value, ("\0tenant", tenant))

    def limit(self, key: str, user: str, client_id: str) -> QuotaLimit | None:
        """None: no limit.  `user` is the name of the principal, without its type."""
        quotas = self._by_key.get(key)
        if quotas:
            anyone = DEFAULT_ENTITY
            # Kafka's order; what the quota is shared by follows from the parts that the entity speaks of.
            for entity in (
                QuotaEntity(user, client_id),
                QuotaEntity(user, anyone),
                QuotaEntity(user),
                QuotaEntity(anyone, client_id),
                QuotaEntity(anyone, anyone),
                QuotaEntity(anyone),
                QuotaEntity(None, client_id),
                QuotaEntity(None, anyone),
            ):
                value = quotas.get(entity)
                if value is not None:
                    shared_user = "" if entity.user is None else user
                    return QuotaLimit(value, (shared_user, "" if entity.client_id is None else client_id))
        default = self._defaults.get(key)
        return None if default is None else QuotaLimit(default, ("", client_id))

    def connection_rate(self, ip: str) -> float | None:
        """New connections a second from this address; None: no limit."""
        quotas = self._by_key.get(CONNECTION_CREATION_RATE)
        if not quotas:
            return None
        address_quota = quotas.get(QuotaEntity(ip=plain_host(ip)))
        return quotas.get(QuotaEntity(ip=DEFAULT_ENTITY)) if address_quota is None else address_quota


# How a rate is measured


class QuotaWindows(NamedTuple):
    """`quota.window.num` windows of `quota.window.size.seconds`; the newest one is not full yet."""

    number: int = 11
    size_ms: int = 1000


WINDOWS = QuotaWindows()


class QuotaRate:
    """The average of what was recorded, over all windows; those before the first record count as empty."""

    def __init__(self, windows: QuotaWindows = WINDOWS) -> None:
        self._windows = windows
        self._samples: deque[list[float]] = deque()  # [start, last record, amount], the oldest first

    def record(self, amount: float, now_ms: int) -> None:
        samples = self._samples
        if not samples or now_ms - samples[-1][0] >= self._windows.size_ms:
            samples.append([now_ms, now_ms, 0.0])
        samples[-1][1] = now_ms
        samples[-1][2] += amount
        self._purge(now_ms)

    def per_second(self, now_ms: int) -> float:
        self._purge(now_ms)
        return sum(sample[2] for sample in self._samples) * 1000 / self._span_ms(now_ms)

    def throttle_ms(self, limit: float, now_ms: int, most_ms: int | None = None) -> int:
        """How long to wait until the average is at the limit; 0 when it is not above."""
        excess = self.per_second(now_ms) - limit
        if excess <= 0:
            return 0
        wait_ms = math.floor(excess / limit * self._span_ms(now_ms) + 0.5)
        return wait_ms if most_ms is None else min(wait_ms, most_ms)

    def room(self, limit: float, now_ms: int) -> float:
        """What can be recorded now without a wait."""
        self._purge(now_ms)
        return limit * self._span_ms(now_ms) / 1000 - sum(sample[2] for sample in self._samples)

    def _purge(self, now_ms: int) -> None:
        old_ms = self._windows.number * self._windows.size_ms
        while self._samples and now_ms - self._samples[0][1] >= old_ms:
            self._samples.popleft()

    def _span_ms(self, now_ms: int) -> float:
        """The time that the average is over: never less than all full windows."""
        number, size_ms = self._windows
        elapsed_ms = now_ms - self._samples[0][0] if self._samples else 0.0
        full = int(elapsed_ms // size_ms)
        # With one window and nothing elapsed there is no time to divide by.
        return max(1.0, elapsed_ms + max(0, number - 1 - full) * size_ms)


class QuotaBudget:
    """A rate for a hot path: that subtracts from `left` what it moves, and calls `settle` only once `left` is below 0.

        budget.left -= size
        if budget.left < 0:
            throttle_ms = budget.settle(now_ms)

    Bytes are handed out ahead in small grants, so what is recorded lags by at most one grant (`GRANT_MS` of the quota).
    One budget serves all connections that share the quota."""

    GRANT_MS = 100

    __slots__ = ("_granted", "_limit", "_rate", "left")

    def __init__(self, limit: float | None, windows: QuotaWindows = WINDOWS) -> None:
        self._rate = QuotaRate(windows)
        self._limit = limit
        self._granted = UNLIMITED_BYTES if limit is None else 0
        self.left = self._granted

    @property
    def limit(self) -> float | None:
        return self._limit

    def change(self, limit: float | None, now_ms: int) -> None:
        """The quota is another one from now on; what was used so far counts."""
        self.settle(now_ms)
        self._limit = limit
        self._grant(now_ms)

    def settle(self, now_ms: int) -> int:
        """Records what was moved, and hands out more.  Returns for how long the client is to be muted."""
        used, self._granted = self._granted - self.left, 0
        self.left = 0
        if self._limit is None:
            self._grant(now_ms)
            return 0
        self._rate.record(used, now_ms)
        throttle_ms = self._rate.throttle_ms(self._limit, now_ms)
        self._grant(now_ms)
        return throttle_ms

    def per_second(self, now_ms: int) -> float:
        """The measured rate, for metrics."""
        return self._rate.per_second(now_ms)

    def _grant(self, now_ms: int) -> None:
        if self._limit is None:
            self._granted = self.left = UNLIMITED_BYTES
            return
        available = self._rate.room(self._limit, now_ms)
        self._granted = self.left = max(0, int(min(available, self._limit * self.GRANT_MS / 1000)))


class TokenBucket:
    """Kafka's controller mutation quota: `per_second` tokens flow in, up to what all windows hold; a change may overdraw
    it, and the next one waits until it is not below zero."""

    def __init__(self, per_second: float, now_ms: int, windows: QuotaWindows = WINDOWS) -> None:
        self._windows = windows
        self._per_second = per_second
        self._updated_ms = now_ms
        self._tokens = self._burst

    @property
    def _burst(self) -> float:
        return self._windows.number * self._windows.size_ms / 1000 * self._per_second

    def change(self, per_second: float, now_ms: int) -> None:
        self._refill(now_ms)
        self._per_second = per_second
        self._tokens = min(self._tokens, self._burst)

    def take(self, amount: float, now_ms: int) -> int:
        """Strict, as for the newer versions of CreateTopics: takes nothing while the bucket is below zero.  Returns how
        long to wait, 0 when the tokens were taken."""
        throttle_ms = self.throttle_ms(now_ms)
        if throttle_ms == 0:
            self._tokens -= amount
        return throttle_ms

    def take_anyway(self, amount: float, now_ms: int) -> int:
        """Permissive, as for the older versions: takes in any case, and says how long the client is to be muted."""
        self._refill(now_ms)
        self._tokens -= amount
        return self.throttle_ms(now_ms)

    def throttle_ms(self, now_ms: int) -> int:
        self._refill(now_ms)
        return 0 if self._tokens >= 0 else math.floor(-self._tokens / self._per_second * 1000 + 0.5)

    def _refill(self, now_ms: int) -> None:
        added = self._per_second * (now_ms - self._updated_ms) / 1000
        self._tokens = min(self._burst, self._tokens + added)
        self._updated_ms = now_ms
