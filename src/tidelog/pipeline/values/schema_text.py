"""Makes an Avro, Protobuf or JSON Schema from the columns of a DataFrame.  Pure.

Every field may be null, as Spark's columns may: so a schema with a column added later can read earlier records.
"""

from __future__ import annotations

import json
import re
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from tidelog.pipeline.options.text import PipelineError

NAMESPACE = "tidelog"
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
AVRO: dict[type[DataType], Any] = {
    BooleanType: "boolean",
    ByteType: "int",
    ShortType: "int",
    IntegerType: "int",
    LongType: "long",
    FloatType: "float",
    DoubleType: "double",
    StringType: "string",
    BinaryType: "bytes",
    DateType: {"type": "int", "logicalType": "date"},
    TimestampType: {"type": "long", "logicalType": "timestamp-micros"},
    TimestampNTZType: {"type": "long", "logicalType": "local-timestamp-micros"},
}
# Decimals and dates have no type of their own in Protobuf: they are text.
PROTOBUF: dict[type[DataType], str] = {
    BooleanType: "bool",
    ByteType: "int32",
    ShortType: "int32",
    IntegerType: "int32",
    LongType: "int64",
    FloatType: "float",
    DoubleType: "double",
    StringType: "string",
    BinaryType: "bytes",
    DateType: "string",
    DecimalType: "string",
    TimestampType: "google.protobuf.Timestamp",
}
JSON: dict[type[DataType], dict[str, str]] = {
    BooleanType: {"type": "boolean"},
    ByteType: {"type": "integer"},
    ShortType: {"type": "integer"},
    IntegerType: {"type": "integer"},
    LongType: {"type": "integer"},
    FloatType: {"type": "number"},
    DoubleType: {"type": "number"},
    DecimalType: {"type": "number"},
    StringType: {"type": "string"},
    BinaryType: {"type": "string"},
    DateType: {"type": "string", "format": "date"},
    TimestampType: {"type": "string", "format": "date-time"},
    TimestampNTZType: {"type": "string"},
}


def schema_text(format: str, rows: StructType, name: str) -> str:
    """`name`: the name of the topic or subject; the outermost record is named after it."""
    if not rows.fields:
        raise PipelineError(f"the rows have no column from which to make a schema of {format}")
    if format == "json":
        return json.dumps({"title": name, **_json(rows)})
    title = re.sub(r"[^A-Za-z0-9_]", "_", name)
    title = title if NAME.fullmatch(title) else f"_{title}"
    if format == "avro":
        made = _avro_record(rows, title, "")
        return json.dumps({"type": "record", "namespace": NAMESPACE, **made})
    lines = _message(rows, title, "")
    imports = ['import "google/protobuf/timestamp.proto";'] if any(STAMP in line for line in lines) else []
    return "\n".join(['syntax = "proto3";', *imports, *lines]) + "\n"


STAMP = PROTOBUF[TimestampType]


def _checked(name: str, where: str) -> str:
    if not NAME.fullmatch(name):
        raise PipelineError(
            f"column {where + name!r} cannot be a field's name: use letters, digits and underscores, or give a "
            "name with AS, or a schema"
        )
    return name


def _no_type(kind: DataType, where: str, format: str) -> PipelineError:
    return PipelineError(
        f"column {where!r} has type {kind.simpleString()}, for which {format} has none: CAST it, or give a schema"
    )


# Avro


def _avro_record(rows: StructType, name: str, where: str) -> dict[str, Any]:
    fields = [
        {
            "name": _checked(field.name, where),
            "type": ["null", _avro(field.dataType, f"{name}_{field.name}", where + field.name)],
            "default": None,
        }
        for field in rows.fields
    ]
    return {"type": "record", "name": name, "fields": fields}


def _avro(kind: DataType, name: str, where: str) -> Any:
    """`name`: the name of a record; each record needs its own."""
    if isinstance(kind, StructType):
        return _avro_record(kind, name, f"{where}.")
    if isinstance(kind, ArrayType):
        return {"type": "array", "items": ["null", _avro(kind.elementType, name, where)]}
    if isinstance(kind, MapType):
        if not isinstance(kind.keyType, StringType):
            raise _no_type(kind, where, "Avro")
        return {"type": "map", "values": ["null", _avro(kind.valueType, name, where)]}
    if isinstance(kind, DecimalType):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    avro_type = AVRO.get(type(kind))
    if avro_type is None:
        raise _no_type(kind, where, "Avro")
    return avro_type


# Protobuf


def _message(rows: StructType, name: str, where: str) -> list[str]:
    lines, inner = [f"message {name} {{"], []
    for number, field in enumerate(rows.fields, 1):
        _checked(field.name, where)
        label, kind = "optional ", field.dataType
        if isinstance(kind, MapType):
            if not isinstance(kind.keyType, StringType | IntegerType | LongType | BooleanType):
                raise _no_type(kind, where + field.name, "Protobuf")
            key = PROTOBUF[type(kind.keyType)]
            value, nested = _single(kind.valueType, field.name, where)
            label, text = "", f"map<{key}, {value}>"
        else:
            if isinstance(kind, ArrayType):
                label, kind = "repeated ", kind.elementType
            text, nested = _single(kind, field.name, where)
        inner += nested
        lines.append(f"  {label}{text} {field.name} = {number};")
    return [*lines, *(f"  {line}" for line in inner), "}"]


def _single(kind: DataType, name: str, where: str) -> tuple[str, list[str]]:
    """The type of one value, and the nested messages that it needs."""
    if isinstance(kind, StructType):
        message = "".join(part.capitalize() for part in name.split("_")) or "Record"
        return message, _message(kind, message, f"{where}{name}.")
    protobuf_type = PROTOBUF.get(type(kind))
    if protobuf_type is None:
        raise _no_type(kind, where + name, "Protobuf")
    return protobuf_type, []


# JSON


def _json(kind: DataType, where: str = "") -> dict[str, Any]:
    if isinstance(kind, StructType):
        fields = {field.name: _json(field.dataType, where + field.name) for field in kind.fields}
        return {"type": "object", "properties": fields}
    if isinstance(kind, ArrayType):
        return {"type": "array", "items": _json(kind.elementType, where)}
    if isinstance(kind, MapType):
        return {"type": "object", "additionalProperties": _json(kind.valueType, where)}
    json_type = JSON.get(type(kind))
    if json_type is None:
        raise _no_type(kind, where, "JSON")
    return dict(json_type)
