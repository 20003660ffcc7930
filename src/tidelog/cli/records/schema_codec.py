"""Keys and values of the command line in a schema: `--value-schema registry`, or a file that has the schema.

With `registry`, records have Confluent's framing: each names the schema it was written with, and the newest schema of the
subject TOPIC-value or TOPIC-key is written with.  With a file, records are the bytes of the schema's format alone."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from tidelog.gateways.rest.codec import ValueCodec
    from tidelog.schema.registry import Registered, Registry

REGISTRY_WORD = "registry"
KINDS = {".avsc": "AVRO", ".proto": "PROTOBUF", ".json": "JSON"}


class BadValue(ValueError):
    """The data do not fit the schema."""


class RegistryCodec:
    """Turns JSON into bytes, and back, by schemas of a registry."""

    def __init__(self, registry: Registry, topic: str, is_key: bool) -> None:
        self._registry = registry
        self._topic = topic
        self._subject = f"{topic}-{'key' if is_key else 'value'}"
        self._codecs: dict[int, ValueCodec] = {}
        self._newest: tuple[int, ValueCodec] | None = None

    async def prepare_reading(self, parts: Iterable[bytes | None]) -> None:
        """Fetches the schemas that the data name."""
        import asyncio

        for schema_id in {self._schema_id(data) for data in parts if data} - set(self._codecs):
            if schema_id is not None:
                self._codecs[schema_id] = await asyncio.to_thread(self._fetch, schema_id)

    async def prepare_writing(self) -> None:
        import asyncio

        self._newest = await asyncio.to_thread(self._fetch_newest)

    def decode(self, data: bytes) -> Any:
        from tidelog.schema.framing import unframe
        from tidelog.schema.serializer import SerializationError

        try:
            schema_id, payload = unframe(self._topic, data)
        except SerializationError as problem:
            raise BadValue(str(problem)) from None
        return _decoded(self._codecs[schema_id], bytes(payload), f"schema {schema_id}")

    def encode(self, value: Any) -> bytes:
        from tidelog.schema.framing import frame

        assert self._newest is not None
        schema_id, codec = self._newest
        return frame(schema_id, _encoded(codec, value, f"schema {schema_id} of {self._subject!r}"))

    def _schema_id(self, data: bytes) -> int | None:
        from tidelog.schema.framing import unframe
        from tidelog.schema.serializer import SerializationError

        try:
            return unframe(self._topic, data)[0]
        except SerializationError:
            return None

    def _fetch(self, schema_id: int) -> ValueCodec:
        return self._codec(self._registry.schema(schema_id))

    def _fetch_newest(self) -> tuple[int, ValueCodec]:
        schema_id, schema = self._registry.latest(self._subject)
        return schema_id, self._codec(schema)

    def _codec(self, schema: Registered) -> ValueCodec:
        from tidelog.gateways.rest.codec import codec_of

        needed: dict[str, dict[str, Any]] = {}
        self._add_needed(schema, needed)
        return codec_of({"schema": schema.text, "schemaType": schema.kind}, needed)

    def _add_needed(self, schema: Registered, needed: dict[str, dict[str, Any]]) -> None:
        """Dependencies first."""
        for name, subject, version in schema.references:
            if name not in needed:
                other = self._registry.version(subject, version)
                self._add_needed(other, needed)
                needed[name] = {"schema": other.text, "schemaType": other.kind}


class FileCodec:
    """By the schema in a file; of a .proto file, its first message."""

    def __init__(self, path: Path) -> None:
        from tidelog.gateways.rest.codec import codec_of

        self._path = path
        kind = KINDS[path.suffix]
        self._codec = codec_of({"schema": path.read_text(encoding="utf-8"), "schemaType": kind}, {})
        # In Confluent's framing a Protobuf message has its path in the file before it: a single 0 is the first message.
        self._prefix = b"\0" if kind == "PROTOBUF" else b""

    async def prepare_reading(self, parts: Iterable[bytes | None]) -> None:
        """Nothing is needed."""

    async def prepare_writing(self) -> None:
        """Nothing is needed."""

    def decode(self, data: bytes) -> Any:
        return _decoded(self._codec, self._prefix + data, str(self._path))

    def encode(self, value: Any) -> bytes:
        return _encoded(self._codec, value, str(self._path))[len(self._prefix) :]


Codec = RegistryCodec | FileCodec


class SchemaCodecs(NamedTuple):
    """None: bytes without a schema."""

    key: Codec | None
    value: Codec | None


def codec_for(given: str | None, registry: Registry | None, topic: str, is_key: bool) -> Codec | None:
    """`given`: the word `registry`, or a file; a click.BadParameter says what is wrong with it."""
    from tidelog.errors import TidelogError

    if given is None:
        return None
    if given == REGISTRY_WORD:
        assert registry is not None
        return RegistryCodec(registry, topic, is_key)
    path = Path(given)
    if path.suffix not in KINDS:
        raise click.BadParameter(f"{given!r} is neither `registry` nor a file {', '.join(KINDS)}")
    try:
        return FileCodec(path)
    except OSError as problem:
        raise click.BadParameter(f"{given}: {(problem.strerror or str(problem)).lower()}") from None
    except TidelogError as problem:
        raise click.BadParameter(f"{given}: {problem}") from None
    except Exception as problem:  # the libraries raise anything for a text that is no schema
        raise click.BadParameter(f"{given} is not a schema: {problem}") from None


def _decoded(codec: ValueCodec, data: bytes, schema: str) -> Any:
    try:
        return codec.decode(data)
    except Exception as problem:  # the libraries raise anything for damaged bytes
        raise BadValue(f"it does not fit {schema}: {problem}") from problem


def _encoded(codec: ValueCodec, value: Any, schema: str) -> bytes:
    try:
        return codec.encode(value)
    except Exception as problem:  # the libraries raise anything for a value that does not fit
        raise BadValue(f"it does not fit {schema}: {problem}") from problem


def schema_options(command: Any) -> Any:
    """Adds --key-schema, --value-schema and --registry; the command gets `schemas`, a function of its session and topic."""
    from tidelog.cli.connection.options import registry_option
    from tidelog.cli.schemas import registry_of

    @functools.wraps(command)
    def with_schemas(
        session: Any,
        *args: Any,
        key_schema: str | None,
        value_schema: str | None,
        registry: str,
        **kwargs: Any,
    ) -> Any:
        def schemas(topic: str) -> SchemaCodecs:
            asked = None
            if REGISTRY_WORD in (key_schema, value_schema):
                asked = registry_of(registry, session.login.registry_login(), session.timeout_ms)
            return SchemaCodecs(
                codec_for(key_schema, asked, topic, True), codec_for(value_schema, asked, topic, False)
            )

        return command(session, *args, schemas=schemas, **kwargs)

    wrapped: Any = with_schemas
    for option in (
        registry_option,
        *(
            click.option(
                f"--{part}-schema",
                metavar="registry|FILE",
                help=f"The {part} is Avro, Protobuf or JSON Schema: by the schema registry, or by a file .avsc, .proto or "
                ".json, without the id of a schema before it.",
            )
            for part in ("value", "key")
        ),
    ):
        wrapped = option(wrapped)
    return wrapped
