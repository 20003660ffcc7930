"""Charges what one request changes in the metadata to the controller mutation quota of who asks."""

from __future__ import annotations

from tidelog import errors
from tidelog.broker.services import Context


class Mutations:
    """`throttle_ms` is for the answer."""

    def __init__(self, context: Context, strict_from: int) -> None:
        """From version `strict_from` on a client knows that changes can be refused."""
        self._context = context
        self._strict = context.version >= strict_from
        self.throttle_ms = 0

    def charge(self, partitions: int) -> None:
        """Raises ThrottlingQuotaExceeded if the change must not be made now."""
        quotas, session = self._context.services.gate.quotas, self._context.session
        throttle_ms = quotas.charge_mutation(session, partitions, self._strict)
        self.throttle_ms = max(self.throttle_ms, throttle_ms)
        if throttle_ms and self._strict:
            raise errors.ThrottlingQuotaExceeded("The throttling quota has been exceeded.")
