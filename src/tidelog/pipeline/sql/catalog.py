"""The catalog of declared streams and tables: their topics, and how the records are read.

If a path is given, the catalog is kept in that file, so that the next session has it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from tidelog.pipeline.sql.statements import RelationKind, SqlError

PROPERTIES = (
    "topic",
    "format",
    "key",
    "timestamp",
    "watermark",
    "starting",
    "on_error",
    "partitions",
    "replicas",
)
OF_SOURCE = ("schema", "message", "registry", "subject")  # passed on to the source, which decodes
FORMATS = ("json", "text", "bytes", "avro", "protobuf")
WATERMARK = "10 seconds"
OnError = Literal["fail", "skip"]


@dataclass(frozen=True)
class Relation:
    kind: RelationKind
    name: str
    topic: str
    format: str
    columns: tuple[tuple[str, str], ...]
    key: str | None = None
    timestamp: str | None = None
    watermark: str = WATERMARK
    starting: str = "earliest"
    on_error: OnError = "fail"
    options: dict[str, str] = field(default_factory=dict)

    @property
    def schema(self) -> str:
        return ", ".join(f"`{name}` {kind}" for name, kind in self.columns)


class Catalog:
    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._relations: dict[str, Relation] = {}
        self.reload()

    def reload(self) -> None:
        """Reads the file again, which another process may have written."""
        path = self._path
        if path is not None and path.exists():
            self._relations = {}
            try:
                for stored in json.loads(path.read_text(encoding="utf-8")):
                    stored["columns"] = tuple((name, kind) for name, kind in stored["columns"])
                    self._relations[stored["name"].lower()] = Relation(**stored)
            except (ValueError, TypeError, KeyError) as problem:
                raise SqlError(f"the catalog {path} is damaged ({problem}): remove it") from None

    def __iter__(self) -> Iterator[Relation]:
        return iter(self._relations.values())

    def get(self, name: str) -> Relation | None:
        return self._relations.get(name.lower())

    def add(self, relation: Relation) -> None:
        self._relations[relation.name.lower()] = relation
        self._save()

    def remove(self, name: str) -> None:
        del self._relations[name.lower()]
        self._save()

    def _save(self) -> None:
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = self._path.with_name(f".{self._path.name}.new")
        new.write_text(json.dumps([asdict(relation) for relation in self], indent=1) + "\n", encoding="utf-8")
        os.replace(new, self._path)
