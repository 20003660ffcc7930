"""Protobuf with a schema registry, in Confluent's framing.  Needs protobuf (`tidelog[schema]`)."""

from __future__ import annotations

import base64
from typing import Any

from tidelog.schema.framing import frame, get_indexes, put_indexes, unframe
from tidelog.schema.registry import Registered, Registry
from tidelog.schema.serializer import SerializationError
from tidelog.schema.subject import SubjectName, Subjects, topic_name

# These files are part of Protobuf, and are not registered.
KNOWN_TYPES = "google/protobuf/"


class Protobuf:
    """
    orders = Protobuf(orders_pb2.Order, registry=Registry(url))
    Producer(value_serializer=orders).send("orders", orders_pb2.Order(id=7))
    """

    def __init__(
        self,
        message: type[Any],
        *,
        registry: Registry,
        auto_register: bool = True,
        use_latest: bool = False,
        normalize: bool = False,
        subject_name: SubjectName = topic_name,
    ) -> None:
        self._message = message
        self._path = _path(message.DESCRIPTOR)
        self._auto_register = auto_register
        self._subjects = Subjects(
            registry,
            auto_register=auto_register,
            use_latest=use_latest,
            subject_name=subject_name,
            normalize=normalize,
        )

    def serialize(self, topic: str, value: Any, is_key: bool = False) -> bytes | None:
        if value is None:
            return None
        if not isinstance(value, self._message):
            raise SerializationError(
                f"a {self._message.DESCRIPTOR.full_name} is needed for topic {topic!r}, not {type(value).__name__}"
            )
        schema_id, _ = self._subjects.schema_for(topic, is_key, self._own)
        try:
            return frame(schema_id, put_indexes(self._path) + value.SerializeToString())
        except Exception as problem:  # Protobuf's own error, whose module is not imported here
            raise SerializationError(f"a message for topic {topic!r} is not complete: {problem}") from problem

    def deserialize(self, topic: str, data: bytes | None, is_key: bool = False) -> Any:
        if data is None:
            return None
        _, payload = unframe(topic, data)
        _, content = get_indexes(topic, payload)
        message = self._message()
        try:
            message.ParseFromString(bytes(content))
        except Exception as problem:
            raise SerializationError(
                f"a record of topic {topic!r} is no {self._message.DESCRIPTOR.full_name}: {problem}"
            ) from problem
        return message

    def ready(self, topic: str, is_key: bool = False) -> bool:
        return self._subjects.known(topic, is_key)

    def prepare(self, topic: str, is_key: bool = False) -> None:
        self._subjects.schema_for(topic, is_key, self._own)

    def knows(self, data: bytes | None) -> bool:
        return True

    def _own(self) -> Registered:
        return self._schema(self._message.DESCRIPTOR.file)

    def _schema(self, file: Any) -> Registered:
        """The schema with a reference to every imported file, each registered under its file name."""
        registry, references = self._subjects.registry, []
        for needed in file.dependencies:
            if needed.name.startswith(KNOWN_TYPES):
                continue
            schema = self._schema(needed)
            if self._auto_register:
                registry.register(needed.name, schema)
            references.append((needed.name, needed.name, registry.version_of(needed.name, schema)))
        return Registered(base64.b64encode(file.serialized_pb).decode(), "PROTOBUF", tuple(references))


def _path(descriptor: Any) -> list[int]:
    """The path of the message in its file: the index at each level, from the outermost on."""
    names: list[str] = []
    inner = descriptor
    while inner is not None:
        names.insert(0, inner.name)
        inner = inner.containing_type
    file = _file(descriptor.file)
    path, messages = [], list(file.message_type)
    for name in names:
        place = [message.name for message in messages].index(name)
        path.append(place)
        messages = list(messages[place].nested_type)
    return path


def _file(file: Any) -> Any:
    from google.protobuf import descriptor_pb2

    return descriptor_pb2.FileDescriptorProto.FromString(file.serialized_pb)
