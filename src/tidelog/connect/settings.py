"""Settings of connectors: tables as those of brokers, the settings that all connectors have, and typed access.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from tidelog.config.setting import Setting, SettingKind, Value, read_table, unknown
from tidelog.errors import InvalidConfig

_FOR_ALL = """
name STRING null built
  Name of the connector.
connector.class STRING null built
  Class of the connector: a name of the list of connectors, also with Kafka Connect's or Debezium's package before it.
tasks.max INT 1 1..100 built
  How many tasks may share the work of the connector.
key.converter STRING json built
  How keys become bytes: json, string or bytes, or the class names of Kafka's converters.
key.converter.schemas.enable BOOLEAN false built
  With the json converter: keys are {"schema": ..., "payload": ...}.
value.converter STRING json built
  How values become bytes: json, string or bytes, or the class names of Kafka's converters.
value.converter.schemas.enable BOOLEAN false built
  With the json converter: values are {"schema": ..., "payload": ...}.
transforms LIST "" built
  Names of single message transforms, applied in this order; each is configured under transforms.NAME.
predicates LIST "" built
  Names of predicates, which decide for which records a transform is applied; each is configured under predicates.NAME.
errors.tolerance STRING none none|all built
  Whether a record that cannot be converted, transformed or written fails the task (none) or is left out (all).
errors.log.enable BOOLEAN false built
  Write a line to the log for each record that is left out.
errors.log.include.messages BOOLEAN false built
  The line has topic, partition and offset of the record, too.
errors.retry.delay.max.ms INT 60000 100.. built
  The longest pause between two attempts to reach the other side.
errors.retry.timeout LONG -1 -1.. built
  How long, in milliseconds, to try to reach the other side before the task fails; -1: for ever.
"""
_FOR_SOURCES = """
offset.flush.interval.ms INT 1000 1.. built
  Records and positions are committed after this many milliseconds.
batch.max.rows INT 20000 1.. built
  Records and positions are committed after this many records.
transaction.timeout.ms INT 60000 1000.. built
  How long a transaction of a worker that died may hold up readers of committed records, at most.
topic.creation.default.partitions INT -1 -1.. built
  How many partitions a topic gets that the connector creates; -1: as the broker decides.
topic.creation.default.replication.factor INT -1 -1.. built
  How many replicas a topic gets that the connector creates; -1: as the broker decides.
"""
_FOR_SINKS = """
topics LIST "" built
  The topics to read.
topics.regex STRING null built
  A regular expression for the whole names of the topics to read, instead of topics.
batch.max.rows INT 2000 1.. built
  How many records are written in one go at most.
offset.flush.interval.ms INT 5000 1.. built
  Offsets are committed to the group of the connector after this many milliseconds.
errors.deadletterqueue.topic.name STRING null built
  With errors.tolerance=all: the topic for records that are left out.
errors.deadletterqueue.context.headers.enable BOOLEAN false built
  Give those records headers that say where they come from and what was wrong.
errors.deadletterqueue.topic.replication.factor INT 3 -1.. built
  How many replicas the dead letter topic gets if it has to be created.
"""


def connect_settings(text: str) -> dict[str, Setting]:
    """A table of settings: two lines for each, see `tidelog.config.setting`.

    connect_settings("file STRING null built\\n  The file to read.")
    """
    return read_table(text)


FOR_SOURCES = connect_settings(_FOR_ALL.rstrip("\n") + _FOR_SOURCES)
FOR_SINKS = connect_settings(_FOR_ALL.rstrip("\n") + _FOR_SINKS)


class ConnectorConfig:
    """The settings of a connector as typed values.  `given`: what the user wrote, references to secrets resolved."""

    def __init__(self, settings: Mapping[str, Setting], given: Mapping[str, str]) -> None:
        self.given = dict(given)
        self._settings = settings
        self._values: dict[str, Value] = {
            name: setting.parse(given[name]) if name in given else setting.default
            for name, setting in settings.items()
        }

    def text(self, name: str) -> str:
        """A string that must be there."""
        value = self._values[name]
        if value in (None, ""):
            raise InvalidConfig(f'Missing required configuration "{name}" which has no default value.')
        return str(value)

    def text_or_none(self, name: str) -> str | None:
        value = self._values[name]
        return None if value in (None, "") else str(value)

    def number(self, name: str) -> int:
        return int(cast(int, self._values[name]))

    def flag(self, name: str) -> bool:
        return bool(self._values[name])

    def words(self, name: str) -> tuple[str, ...]:
        value = self._values[name]
        return value if isinstance(value, tuple) else ()

    def below(self, prefix: str) -> dict[str, str]:
        """What was given under a prefix, with the names behind it."""
        return {name[len(prefix) :]: value for name, value in self.given.items() if name.startswith(prefix)}


Problems = dict[str, list[str]]


def check_settings(
    settings: Mapping[str, Setting],
    required: Iterable[str],
    prefixes: tuple[str, ...],
    given: Mapping[str, str],
) -> Problems:
    """What is wrong with each setting; empty if nothing is."""
    problems: Problems = {}
    for name in required:
        if not given.get(name):
            problems[name] = [f'Missing required configuration "{name}" which has no default value.']
    for name, text in given.items():
        setting = settings.get(name)
        if setting is None:
            if not name.startswith(prefixes):
                problems.setdefault(name, []).append(unknown(name, settings, "connector setting"))
            continue
        if setting.kind is SettingKind.PASSWORD and text and not is_reference(text):
            problems.setdefault(name, []).append(
                f"{name} is a secret and must not be written here: refer to it as ${{env:VARIABLE}} or "
                "${file:/path/to/properties:key}, on the machine of the worker"
            )
            continue
        if is_reference(text):
            continue  # its value is on the machine of the worker that runs the task
        try:
            setting.parse(text)
        except InvalidConfig as problem:
            problems.setdefault(name, []).append(str(problem))
    return problems


def is_reference(text: str) -> bool:
    return (
        text.startswith("${") and text.endswith("}") and text[2:].split(":", 1)[0] in ("env", "file", "dir")
    )
