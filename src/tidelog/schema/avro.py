"""Avro with a schema registry, in Confluent's framing.  Needs fastavro (`tidelog[schema]`)."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from typing import Any

from tidelog.extras import need
from tidelog.schema.avro_reading import AvroReader, parse
from tidelog.schema.framing import frame, unframe
from tidelog.schema.registry import Registered, Registry
from tidelog.schema.serializer import SerializationError
from tidelog.schema.subject import SubjectName, Subjects, topic_name


class Avro:
    """
    orders = Avro('{"type": "record", "name": "Order", "fields": [...]}', registry=Registry(url))
    Producer(value_serializer=orders).send("orders", {"id": 7})

    Without a schema it can only read, with the schema each record was written with; with one, records are read
    as that schema wants them.  `references` are name, subject and version of each schema that this one needs.
    """

    def __init__(
        self,
        schema: str | dict[str, Any] | None = None,
        *,
        registry: Registry,
        references: Iterable[tuple[str, str, int]] = (),
        auto_register: bool = True,
        use_latest: bool = False,
        normalize: bool = False,
        subject_name: SubjectName = topic_name,
    ) -> None:
        need("fastavro", "Avro schemas")
        self._text = json.dumps(schema) if isinstance(schema, dict) else schema
        self._references = tuple(references)
        self._subjects = Subjects(
            registry,
            auto_register=auto_register,
            use_latest=use_latest,
            subject_name=subject_name,
            normalize=normalize,
        )
        self._parsed: dict[str, tuple[Any, AvroReader]] = {}
        # References need requests to the registry, which take time and must not be sent here.
        self._reader = None if self._text is None or self._references else self._parse(self._own())[0]

    def serialize(self, topic: str, value: Any, is_key: bool = False) -> bytes | None:
        import fastavro

        if value is None:
            return None
        schema_id, schema = self._subjects.schema_for(topic, is_key, self._own)
        out = io.BytesIO()
        try:
            fastavro.schemaless_writer(out, self._parse(schema)[0], value)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as problem:
            raise SerializationError(
                f"a value for topic {topic!r} does not fit its schema: {problem}"
            ) from None
        return frame(schema_id, out.getvalue())

    def deserialize(self, topic: str, data: bytes | None, is_key: bool = False) -> Any:
        if data is None:
            return None
        schema_id, payload = unframe(topic, data)
        _, written = self._parse(self._subjects.registry.schema(schema_id))
        reader = self._parse(self._own())[0] if self._references else self._reader
        try:
            return written.read(payload, reader)
        except Exception as problem:  # any exception of fastavro for damaged bytes
            raise SerializationError(
                f"a record of topic {topic!r} does not fit its schema {schema_id}: {problem}"
            ) from problem

    def ready(self, topic: str, is_key: bool = False) -> bool:
        return self._subjects.known(topic, is_key)

    def prepare(self, topic: str, is_key: bool = False) -> None:
        self._subjects.schema_for(topic, is_key, self._own)

    def knows(self, data: bytes | None) -> bool:
        return self._subjects.knows(data)

    def _own(self) -> Registered:
        if self._text is None:
            raise SerializationError("this Avro has no schema to write with: give it one, or use_latest")
        return Registered(self._text, references=self._references)

    def _parse(self, schema: Registered, named: dict[str, Any] | None = None) -> tuple[Any, AvroReader]:
        """`named` holds the types that a schema may refer to; the types of its own references are added."""
        import fastavro

        cached = self._parsed.get(schema.text) if named is None else None
        if cached is None:
            types: dict[str, Any] = {} if named is None else named
            for _, subject, version in schema.references:
                self._parse(self._subjects.registry.version(subject, version), types)
            try:
                parsed = parse(schema.text, types)
            except (ValueError, KeyError, TypeError, fastavro.schema.SchemaParseException) as problem:
                raise SerializationError(f"this is not an Avro schema: {problem}") from None
            cached = parsed, AvroReader(parsed, types)
            self._parsed.setdefault(schema.text, cached)
        return cached
