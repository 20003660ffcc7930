"""JSON Schema with a schema registry, in Confluent's framing.  Needs jsonschema-rs (`tidelog[schema]`)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tidelog.extras import need
from tidelog.schema.framing import frame, unframe
from tidelog.schema.registry import Registered, Registry
from tidelog.schema.serializer import SerializationError
from tidelog.schema.subject import SubjectName, Subjects, topic_name


class JsonSchema:
    """
    orders = JsonSchema('{"type": "object", "properties": {...}}', registry=Registry(url))
    Producer(value_serializer=orders).send("orders", {"id": 7})

    Values are checked against the schema when written and, with a schema of its own, when read.  `references` are name,
    subject and version of each schema that this one needs.
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
        validate: bool = True,
        subject_name: SubjectName = topic_name,
    ) -> None:
        self._text = json.dumps(schema) if isinstance(schema, dict) else schema
        self._references = tuple(references)
        self._validate = validate
        self._subjects = Subjects(
            registry,
            auto_register=auto_register,
            use_latest=use_latest,
            subject_name=subject_name,
            normalize=normalize,
        )
        self._validators: dict[Registered, Any] = {}

    def serialize(self, topic: str, value: Any, is_key: bool = False) -> bytes | None:
        if value is None:
            return None
        schema_id, schema = self._subjects.schema_for(topic, is_key, self._own)
        self._check(topic, value, schema)
        try:
            return frame(
                schema_id,
                json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode(),
            )
        except (TypeError, ValueError) as problem:
            raise SerializationError(f"a value for topic {topic!r} cannot be JSON: {problem}") from None

    def deserialize(self, topic: str, data: bytes | None, is_key: bool = False) -> Any:
        if data is None:
            return None
        _, payload = unframe(topic, data)
        try:
            value = json.loads(bytes(payload))
        except (ValueError, RecursionError) as problem:
            raise SerializationError(f"a record of topic {topic!r} is not JSON: {problem}") from None
        if self._text is not None:
            self._check(topic, value, self._own())
        return value

    def ready(self, topic: str, is_key: bool = False) -> bool:
        return self._subjects.known(topic, is_key)

    def prepare(self, topic: str, is_key: bool = False) -> None:
        self._subjects.schema_for(topic, is_key, self._own)

    def knows(self, data: bytes | None) -> bool:
        return True

    def _own(self) -> Registered:
        if self._text is None:
            raise SerializationError(
                "this JsonSchema has no schema to write with: give it one, or use_latest"
            )
        return Registered(self._text, "JSON", self._references)

    def _check(self, topic: str, value: Any, schema: Registered) -> None:
        if not self._validate:
            return
        validator = self._validators.get(schema)
        if validator is None:
            validator = self._validators[schema] = self._validator(schema)
        problem = next(validator.iter_errors(value), None)
        if problem is not None:
            where = "".join(f"[{at}]" if isinstance(at, int) else f".{at}" for at in problem.instance_path)
            raise SerializationError(
                f"a value of topic {topic!r} does not fit its schema at ${where}: {problem.message}"
            )

    def _validator(self, schema: Registered) -> Any:
        need("jsonschema_rs", "JSON schemas")
        import jsonschema_rs

        others: dict[str, Any] = {}
        self._collect(schema, others)

        def retrieve(uri: str) -> Any:
            for name, other in others.items():
                if uri == name or uri.endswith("/" + name):
                    return other
            raise ValueError(f"no reference has the name {uri}")

        try:
            root = json.loads(schema.text)
            registry = jsonschema_rs.Registry(
                list(others.items()), draft=jsonschema_rs.Draft7, retriever=retrieve
            )
            if isinstance(root, dict) and "$schema" not in root:
                return jsonschema_rs.Draft7Validator(root, registry=registry, retriever=retrieve)
            return jsonschema_rs.validator_for(root, registry=registry, retriever=retrieve)
        except (ValueError, jsonschema_rs.ReferencingError) as problem:
            raise SerializationError(f"this is not a JSON schema: {problem}") from None

    def _collect(self, schema: Registered, others: dict[str, Any]) -> None:
        for name, subject, version in schema.references:
            if name not in others:
                inner = self._subjects.registry.version(subject, version)
                others[name] = json.loads(inner.text)
                self._collect(inner, others)
