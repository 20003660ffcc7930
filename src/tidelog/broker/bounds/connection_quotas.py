"""How fast connections may come: to the broker, to each listener, from each address.

The server asks for each connection that it accepts.  A listener above its rate is not accepted from for a while; a
connection from an address above its rate is closed after the time that is returned."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.access.quota_budgets import ConnectionBudget, QuotaUses
from tidelog.access.quotas import QuotaLimit
from tidelog.broker.bounds.quota_manager import QuotaManager
from tidelog.clock import Clock
from tidelog.config import BrokerConfig
from tidelog.config.listener_security import ListenerSecurity

UNLIMITED = (1 << 31) - 1
BROKER = ""


class ConnectionQuotas:
    def __init__(self, quotas: QuotaManager) -> None:
        self._quotas = quotas
        self._listeners = QuotaUses(lambda rate, _: ConnectionBudget(rate, quotas.windows()))
        self._addresses = QuotaUses(lambda rate, _: ConnectionBudget(rate, quotas.windows()))

    def accepted(self, listener: str, config: BrokerConfig, security: ListenerSecurity, now_ms: int) -> int:
        """Returns for how many milliseconds the listener is not to be accepted from.  Brokers reach each other whatever
        the bound of the whole broker is."""
        throttle_ms = 0
        broker_rate = config.max_connection_creation_rate
        if broker_rate < UNLIMITED:
            waits_ms = self._charge(self._listeners, BROKER, broker_rate, now_ms, True)
            if listener != config.inter_broker_listener or len(config.listeners) == 1:
                throttle_ms = waits_ms
        if security.connection_rate_max < UNLIMITED:
            rate = security.connection_rate_max
            throttle_ms = max(throttle_ms, self._charge(self._listeners, listener, rate, now_ms, True))
        return throttle_ms

    def came_from(self, host: str, now_ms: int) -> int:
        """Returns 0 if the connection may stay, or after how many milliseconds it is to be closed."""
        rate = self._quotas.connection_rate(host)
        return 0 if rate is None else self._charge(self._addresses, host, rate, now_ms, False)

    def _charge(
        self, uses: QuotaUses[ConnectionBudget], name: str, rate: float, now_ms: int, counts: bool
    ) -> int:
        number, size_ms = self._quotas.windows()
        budget = uses.of(QuotaLimit(rate, (name, "")), now_ms, number * size_ms)
        return budget.charge(now_ms, counts)


def address_rates(quotas: QuotaManager, clock: Clock) -> Callable[[str], int]:
    """`came_from` of the doors other than Kafka's, which share the rates of addresses."""
    rates = ConnectionQuotas(quotas)
    return lambda host: rates.came_from(host, clock.monotonic_ms())
