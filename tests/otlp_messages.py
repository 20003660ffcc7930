"""OpenTelemetry's metrics messages for protobuf's own decoder: the fields that clients and brokers write."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "otlp"
F = descriptor_pb2.FieldDescriptorProto
TEXT, DOUBLE, FIXED64, INT64, BOOL, ENUM = (
    F.TYPE_STRING, F.TYPE_DOUBLE, F.TYPE_FIXED64, F.TYPE_SFIXED64, F.TYPE_BOOL, F.TYPE_INT32,
)  # fmt: skip
MESSAGES: dict[str, dict[str, tuple[int, int | str, bool]]] = {
    "AnyValue": {"string_value": (1, TEXT, False)},
    "KeyValue": {"key": (1, TEXT, False), "value": (2, "AnyValue", False)},
    "Resource": {"attributes": (1, "KeyValue", True)},
    "Scope": {"name": (1, TEXT, False), "version": (2, TEXT, False)},
    "Point": {
        "start_time_unix_nano": (2, FIXED64, False),
        "time_unix_nano": (3, FIXED64, False),
        "as_double": (4, DOUBLE, False),
        "as_int": (6, INT64, False),
        "attributes": (7, "KeyValue", True),
    },
    "Gauge": {"data_points": (1, "Point", True)},
    "Sum": {
        "data_points": (1, "Point", True),
        "aggregation_temporality": (2, ENUM, False),
        "is_monotonic": (3, BOOL, False),
    },
    "Metric": {
        "name": (1, TEXT, False),
        "unit": (3, TEXT, False),
        "gauge": (5, "Gauge", False),
        "sum": (7, "Sum", False),
    },
    "ScopeMetrics": {"scope": (1, "Scope", False), "metrics": (2, "Metric", True)},
    "ResourceMetrics": {"resource": (1, "Resource", False), "scope_metrics": (2, "ScopeMetrics", True)},
    "MetricsData": {"resource_metrics": (1, "ResourceMetrics", True)},
}


def _build() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="otlp.proto", package=PACKAGE, syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field_name, (number, kind, repeated) in fields.items():
            field = message.field.add(name=field_name, number=number)
            field.label = F.LABEL_REPEATED if repeated else F.LABEL_OPTIONAL
            if isinstance(kind, str):
                field.type, field.type_name = F.TYPE_MESSAGE, f".{PACKAGE}.{kind}"
            else:
                field.type = kind  # type: ignore[assignment]
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.MetricsData"))


MetricsData = _build()
"""Also the request of an export: its first field has the same number and type."""


def resource_of(resource_metrics: Any) -> dict[str, str]:
    return {pair.key: pair.value.string_value for pair in resource_metrics.resource.attributes}


def metrics_of(resource_metrics: Any) -> dict[str, Any]:
    return {metric.name: metric for scope in resource_metrics.scope_metrics for metric in scope.metrics}
