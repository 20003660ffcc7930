"""The delay of a refused login: it grows with the number of recent refusals of the same address.

The delay never refuses a right password, so nobody can lock a user out.  The table is bounded."""

from __future__ import annotations

from collections import OrderedDict, deque

FREE = 5
"""The number of refusals of one address within `WITHIN_MS` that have the usual delay."""
WITHIN_MS = 60_000
FACTOR_MAX = 20
ADDRESSES_MAX = 10_000
_KEPT = FREE + FACTOR_MAX.bit_length()


class LoginFailures:
    def __init__(self) -> None:
        self._times: OrderedDict[str, deque[int]] = OrderedDict()

    def failed(self, host: str, now_ms: int) -> int:
        """By what the usual delay of the answer is multiplied."""
        times = self._times.setdefault(host, deque(maxlen=_KEPT))
        self._times.move_to_end(host)
        if len(self._times) > ADDRESSES_MAX:
            self._times.popitem(last=False)
        times.append(now_ms)
        lately = sum(now_ms - time_ms < WITHIN_MS for time_ms in times)
        return int(min(1 << max(lately - FREE, 0), FACTOR_MAX))
