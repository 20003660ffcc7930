"""Lines of files as records: each file of a folder, or one file, followed as it grows.

A file is known by its inode, so that one that is renamed (log rotation) is read to its end and not again.  A last line
without a line feed is left until it has one."""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Mapping

from tidelog.connect.connector import ConnectError, Position, Positions, Source, SourceBatch, Unavailable
from tidelog.connect.records import ConnectRecord, ConnectSchema
from tidelog.connect.settings import ConnectorConfig, connect_settings
from tidelog.connect.state.store import position_key

CHUNK_BYTES = 1 << 20
TEXT = ConnectSchema("string")


class FileSource(Source):
    SETTINGS = connect_settings("""
file STRING null built
  The file to read, or a pattern such as /var/log/app/*.log: every file that matches is read.
topic STRING null built
  The topic to write to.
batch.size INT 2000 1.. built
  How many lines are read in one go at most.
line.bytes.max INT 1000000 1.. built
  A longer line fails the task.
""")
    REQUIRED = frozenset(("file", "topic"))

    def __init__(self, config: ConnectorConfig, task: Mapping[str, str]) -> None:
        super().__init__(config, task)
        self._pattern = config.text("file")
        self._topic = config.text("topic")
        self._rows_max = config.number("batch.size")
        self._line_max = config.number("line.bytes.max")
        self._positions: dict[str, int] = {}

    def open(self, positions: Positions) -> None:
        self._positions = {key: int(offset["position"]) for key, offset in positions.items()}

    def read(self, wait_ms: int) -> SourceBatch | None:
        for path in sorted(glob.glob(self._pattern)) or [self._pattern]:
            try:
                batch = self._read(path)
            except FileNotFoundError:
                continue
            except OSError as problem:
                raise Unavailable(f"{path} cannot be read: {problem.strerror}") from None
            if batch is not None:
                return batch
        time.sleep(wait_ms / 1000)
        return None

    def _read(self, path: str) -> SourceBatch | None:
        with open(path, "rb") as file:
            facts = os.fstat(file.fileno())
            partition = {"inode": facts.st_ino, "filename": os.path.basename(self._pattern)}
            key = position_key(partition)
            at = self._positions.get(key, 0)
            if facts.st_size < at:
                at = 0  # truncated: what is there now is new
            if facts.st_size == at:
                self._positions[key] = at
                return None
            file.seek(at)
            data = file.read(max(CHUNK_BYTES, self._line_max + 1))
        records: list[ConnectRecord] = []
        end = 0
        while len(records) < self._rows_max:
            newline = data.find(b"\n", end)
            if newline < 0:
                break
            line = data[end:newline].removesuffix(b"\r")
            records.append(
                ConnectRecord(self._topic, value=line.decode("utf-8", "replace"), value_schema=TEXT)
            )
            end = newline + 1
        if not records:
            if len(data) > self._line_max:
                raise ConnectError(
                    f"{path} has a line of more than {self._line_max} bytes at byte {at}: set line.bytes.max"
                )
            return None
        self._positions[key] = at + end
        position: Position = (partition, {"position": at + end})
        return SourceBatch(records, [position])
