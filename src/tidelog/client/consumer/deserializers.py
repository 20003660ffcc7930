"""Keys and values of consumed records, made from their bytes.  Null stays null."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from copy import copy
from typing import Any

from tidelog._speed.client.consumed import Record, convert
from tidelog.schema.serializer import Deserializer, Remote, SerializationError, deserializer_of


class SchemaUnavailable(SerializationError):
    """The registry that has a record's schema could not be asked; the record is as good as any."""

    retriable = True


DeserializerOption = Deserializer | Callable[[bytes | None], Any] | None


class Deserializers:
    def __init__(self, key: DeserializerOption, value: DeserializerOption) -> None:
        self._key = deserializer_of(key)
        self._value = deserializer_of(value)
        self.active = self._key is not None or self._value is not None

    async def convert(self, records: list[Record]) -> tuple[int, SerializationError | None]:
        """Deserializes in place; returns the number of records that succeeded, and the error of the next one."""
        key = self._key.deserialize if self._key is not None else None
        value = self._value.deserialize if self._value is not None else None
        if self._must_ask(records):
            # Asking a registry takes time, and heartbeats must go on meanwhile.
            count, problem = await asyncio.to_thread(convert, records, key, value)
        else:
            count, problem = convert(records, key, value)
        if problem is None:
            return count, None
        bad = records[count]
        where = f"{bad.topic}-{bad.partition} at offset {bad.offset}"
        error = (
            SchemaUnavailable(f"{where}: {problem}; poll again later")
            if _may_pass(problem)
            else SerializationError(f"{where}: {problem}; seek past it to continue")
        )
        error.__cause__ = problem
        return count, error

    async def converted(self, record: Record) -> Record:
        """A copy of the record with deserialized key and value; raises `SerializationError`."""
        if not self.active:
            return record
        converted = copy(record)
        _, problem = await self.convert([converted])
        if problem is not None:
            raise problem
        return converted

    def _must_ask(self, records: list[Record]) -> bool:
        key, value = self._key, self._value
        return (isinstance(key, Remote) and not all(key.knows(record.key) for record in records)) or (
            isinstance(value, Remote) and not all(value.knows(record.value) for record in records)
        )


def _may_pass(problem: Exception) -> bool:
    from tidelog.schema.registry import RegistryError

    return isinstance(problem, RegistryError) and (problem.status == 0 or problem.status >= 500)
