"""JSON Schema with a schema registry, in Confluent's framing.  Needs jsonschema (`tidelog[schema]`)."""

from __future__ import annotations

import json
from typing import Any

from tidelog.schema.framing import frame, unframe
from tidelog.schema.registry import Registered, Registry
from tidelog.schema.serializer import SerializationError
from tidelog.schema.subject import SubjectName, Subjects, topic_name


class JsonSchema:
    """
    orders = JsonSchema('{"type": "object", "properties": {...}}', registry=Registry(url))
    Producer(value_serializer=orders).send("orders", {"id": 7})

    Values are checked against the schema when written and, with a schema of its own, when read.
    """

    def __init__(
        self,
        schema: str | dict[str, Any] | None = None,
        *,
        registry: Registry,
        auto_register: bool = True,
        use_latest: bool = False,
        validate: bool = True,
        subject_name: SubjectName = topic_name,
    ) -> None:
        self._text = json.dumps(schema) if isinstance(schema, dict) else schema
        self._validate = validate
        self._subjects = Subjects(
            registry, auto_register=auto_register, use_latest=use_latest, subject_name=subject_name
        )
        self._validators: dict[str, Any] = {}

    def serialize(self, topic: str, value: Any, is_key: bool = False) -> bytes | None:
        if value is None:
            return None
        schema_id, schema = self._subjects.schema_for(topic, is_key, self._own)
        self._check(topic, value, schema.text)
        try:
            return frame(schema_id, json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())
        except (TypeError, ValueError) as problem:
            raise SerializationError(f"a value for topic {topic!r} cannot be JSON: {problem}") from None

    def deserialize(self, topic: str, data: bytes | None, is_key: bool = False) -> Any:
        if data is None:
            return None
        _, payload = unframe(topic, data)
        try:
            value = json.loads(bytes(payload))
        except ValueError as problem:
            raise SerializationError(f"a record of topic {topic!r} is not JSON: {problem}") from None
        if self._text is not None:
            self._check(topic, value, self._text)
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
        return Registered(self._text, "JSON")

    def _check(self, topic: str, value: Any, text: str) -> None:
        if not self._validate:
            return
        import jsonschema

        validator = self._validators.get(text)
        if validator is None:
            schema = json.loads(text)
            validator = self._validators[text] = jsonschema.validators.validator_for(schema)(schema)
        problem = next(validator.iter_errors(value), None)
        if problem is not None:
            raise SerializationError(
                f"a value of topic {topic!r} does not fit its schema at {problem.json_path}: {problem.message}"
            )
