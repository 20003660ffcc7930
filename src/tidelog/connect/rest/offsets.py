"""Offsets of a connector: shown, and changed or deleted while the connector is stopped."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tidelog import errors
from tidelog.aio import Admin, TopicPartition
from tidelog.connect.rest.answers import kind_of
from tidelog.connect.rest.bodies import object_of
from tidelog.connect.rest.changes import RequestRefused, entry_of
from tidelog.connect.state.connectors import STOPPED, ConnectorEntry
from tidelog.connect.tasks.sink_task import group_of
from tidelog.connect.worker import ConnectWorker


class OffsetsApi:
    def __init__(self, worker: ConnectWorker) -> None:
        self._worker = worker
        self._store = worker.store

    async def get(self, request: Request) -> Response:
        entry = entry_of(self._store.connectors, request.path_params["name"])
        return JSONResponse({"offsets": await self._offsets(entry)})

    async def _offsets(self, entry: ConnectorEntry) -> list[dict[str, Any]]:
        if kind_of(self._worker, entry) == "source":
            stored = await self._store.source_offsets(entry.name)
            return [
                {"partition": json.loads(key), "offset": offset} for key, offset in sorted(stored.items())
            ]
        async with Admin(**self._store.options.client) as admin:
            group = group_of(self._store.options.group, entry.name)
            committed = await admin.list_group_offsets(group)
        return [
            {
                "partition": {"kafka_topic": partition.topic, "kafka_partition": partition.partition},
                "offset": {"kafka_offset": offset.offset},
            }
            for partition, offset in sorted(committed.items())
        ]

    def _stopped(self, request: Request) -> ConnectorEntry:
        entry = entry_of(self._store.connectors, request.path_params["name"])
        if entry.target != STOPPED:
            raise RequestRefused(
                400,
                "Connectors must be in the STOPPED state before their offsets can be modified: PUT .../stop first",
            )
        if kind_of(self._worker, entry) == "sink" and self._worker.plugins.of(entry.settings).TRANSACTIONAL:  # type: ignore[union-attr]
            raise RequestRefused(
                400,
                "This sink keeps its offsets in the target, beside the rows: change them there, in the table of "
                "offsets.table",
            )
        return entry

    async def alter(self, request: Request) -> Response:
        entry = self._stopped(request)
        given = (await object_of(request)).get("offsets")
        try:
            pairs = [(dict(each["partition"]), each["offset"]) for each in given or ()]
        except (TypeError, KeyError, ValueError):
            raise RequestRefused(400, 'send {"offsets": [{"partition": {...}, "offset": {...}}]}') from None
        if not pairs:
            raise RequestRefused(400, "Partitions / offsets need to be provided for an alter offsets request")
        if kind_of(self._worker, entry) == "source":
            await self._store.write_source_offsets(entry.name, pairs)
        else:
            await self._alter_group(entry, pairs)
        return JSONResponse({"message": "The offsets for this connector have been altered successfully"})

    async def _alter_group(self, entry: ConnectorEntry, pairs: list[tuple[dict[str, Any], Any]]) -> None:
        try:
            offsets = {
                TopicPartition(str(where["kafka_topic"]), int(where["kafka_partition"])): None
                if offset is None
                else int(offset["kafka_offset"])
                for where, offset in pairs
            }
        except (KeyError, TypeError, ValueError):
            raise RequestRefused(
                400, "a sink's partition has kafka_topic and kafka_partition, and its offset kafka_offset"
            ) from None
        group = group_of(self._store.options.group, entry.name)
        async with Admin(**self._store.options.client) as admin:
            await admin.alter_group_offsets(
                group, {partition: offset for partition, offset in offsets.items() if offset is not None}
            )
            forgotten = [partition for partition, offset in offsets.items() if offset is None]
            if forgotten:
                await admin.delete_group_offsets(group, forgotten)

    async def reset(self, request: Request) -> Response:
        entry = self._stopped(request)
        if kind_of(self._worker, entry) == "source":
            stored = await self._store.source_offsets(entry.name)
            await self._store.write_source_offsets(entry.name, [(json.loads(key), None) for key in stored])
        else:
            async with Admin(**self._store.options.client) as admin:
                try:
                    await admin.delete_groups([group_of(self._store.options.group, entry.name)])
                except errors.GroupIdNotFound:
                    pass
        return JSONResponse({"message": "The offsets for this connector have been reset successfully"})
