"""The alarms of this broker: connections that publish are not read while there is one, and are told so.

An alarm of memory begins when what was published and is not stored yet comes near its bound, and ends when half of it is
stored.  An alarm of the disk holds while a log directory has less room than `tidelog.amqp.disk.free.bytes.min`."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidelog import errors
from tidelog.queues.publishing import PENDING_BYTES_MAX

MEMORY, DISK = "memory", "disk"
PENDING_BYTES_ALARM = PENDING_BYTES_MAX * 3 // 4
PENDING_BYTES_CALM = PENDING_BYTES_MAX // 2


class Alarms:
    def __init__(
        self,
        pending_bytes: Callable[[], int],
        disks: Callable[[], Iterable[Callable[[], int]]],
        free_bytes_min: Callable[[], int],
    ) -> None:
        """`disks`: for each log directory, what says how many bytes are free."""
        self._pending_bytes = pending_bytes
        self._disks = disks
        self._free_bytes_min = free_bytes_min
        self.active: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """In RabbitMQ's words."""
        return f"low on {' & '.join(self.active)}"

    def look(self) -> bool:
        """True when the alarms are others than before."""
        bound = PENDING_BYTES_CALM if MEMORY in self.active else PENDING_BYTES_ALARM
        active = [MEMORY] if self._pending_bytes() > bound else []
        if self._disk_is_low():
            active.append(DISK)
        before, self.active = self.active, tuple(active)
        return self.active != before

    def _disk_is_low(self) -> bool:
        least = self._free_bytes_min()
        for free_bytes in self._disks() if least else ():
            try:
                if free_bytes() < least:
                    return True
            except (OSError, errors.KafkaStorageError):
                continue  # a directory that failed is no longer in use
        return False
