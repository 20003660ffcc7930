"""The transforms of a connector, in order, each with the predicate that says for which records it works.  Pure."""

from __future__ import annotations

import re
from collections.abc import Callable

from tidelog.connect.records import ConnectRecord
from tidelog.connect.settings import ConnectorConfig
from tidelog.connect.transforms import debezium, fields, headers, routing
from tidelog.connect.transforms.options import Transform, TransformOptions
from tidelog.errors import InvalidConfig

Predicate = Callable[[ConnectRecord], bool]

_KAFKA = "org.apache.kafka.connect.transforms."
_MAKERS: dict[str, Callable[[TransformOptions], Transform]] = {
    **{_KAFKA + name: make for name, make in fields.MAKERS.items()},
    **{_KAFKA + name: make for name, make in headers.MAKERS.items()},
    **{_KAFKA + name: make for name, make in routing.MAKERS.items()},
    "io.debezium.transforms.ExtractNewRecordState": debezium.extract_new_record_state,
    "io.debezium.transforms.outbox.EventRouter": debezium.event_router,
}


def _topic_matches(options: TransformOptions) -> Predicate:
    pattern = options.pattern("pattern")
    return lambda record: pattern.fullmatch(record.topic) is not None


def _has_header(options: TransformOptions) -> Predicate:
    name = options.text("name")
    return lambda record: any(key == name for key, _ in record.headers)


_PREDICATES: dict[str, Callable[[TransformOptions], Predicate]] = {
    "TopicNameMatches": _topic_matches,
    "HasHeaderKey": _has_header,
    "RecordIsTombstone": lambda options: lambda record: record.value is None,
}


def names() -> list[str]:
    return sorted(_MAKERS)


def chain_of(config: ConnectorConfig) -> list[Transform]:
    """Raises `InvalidConfig` for settings that no transform has."""
    predicates = {}
    for name in config.words("predicates"):
        options = TransformOptions(f"predicates.{name}.", config.below(f"predicates.{name}."))
        kind = options.text("type").removeprefix(f"{_KAFKA}predicates.")
        if kind not in _PREDICATES:
            raise InvalidConfig(f"predicates.{name}.type cannot be {kind!r}: use {', '.join(_PREDICATES)}")
        predicates[name] = _PREDICATES[kind](options)
        options.done()
    chain = []
    for name in config.words("transforms"):
        options = TransformOptions(f"transforms.{name}.", config.below(f"transforms.{name}."))
        make = _maker(name, options.text("type"))
        predicate, negate = options.text("predicate", ""), options.flag("negate")
        if predicate and predicate not in predicates:
            raise InvalidConfig(
                f"transforms.{name}.predicate names {predicate!r}, which is not in predicates"
            )
        transform = make(options)
        options.done()
        chain.append(_only_if(predicates[predicate], negate, transform) if predicate else transform)
    _check_names(config)
    return chain


def _maker(name: str, kind: str) -> Callable[[TransformOptions], Transform]:
    full = kind if "." in kind else _KAFKA + kind
    make = _MAKERS.get(full) or next(
        (make for label, make in _MAKERS.items() if label.rpartition(".")[2] == kind), None
    )
    if make is None:
        short = [label.rpartition(".")[2] for label in names()]
        raise InvalidConfig(f"transforms.{name}.type cannot be {kind!r}: use one of {', '.join(short)}")
    return make


def _check_names(config: ConnectorConfig) -> None:
    for kind in ("transforms", "predicates"):
        listed = config.words(kind)
        for key in config.below(f"{kind}."):
            if not re.match(f"({'|'.join(map(re.escape, listed))})\\." if listed else r"(?!)", key):
                raise InvalidConfig(f"{kind}.{key} belongs to no entry of {kind}={','.join(listed)}")


def _only_if(predicate: Predicate, negate: bool, transform: Transform) -> Transform:
    return lambda record: transform(record) if predicate(record) != negate else record


def transformed(chain: list[Transform], record: ConnectRecord) -> ConnectRecord | None:
    """None: the record is dropped."""
    for transform in chain:
        changed = transform(record)
        if changed is None:
            return None
        record = changed
    return record
