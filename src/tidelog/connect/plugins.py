"""The connectors that a worker has, by name: those of Tidelog, and classes of modules that the worker is started with.

A connector also answers to the class names of Kafka Connect's, Debezium's and Confluent's connectors whose settings it
takes."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib import import_module

from tidelog.config.setting import Setting, unknown
from tidelog.connect.connector import Sink, Source
from tidelog.connect.settings import FOR_SINKS, FOR_SOURCES, ConnectorConfig, Problems, check_settings
from tidelog.errors import InvalidConfig

_OWN = {
    "FileSource": "tidelog.connect.sources.file:FileSource",
    "PostgresSource": "tidelog.connect.sources.postgres.source:PostgresSource",
    "JdbcSink": "tidelog.connect.sinks.jdbc:JdbcSink",
}
_ALIASES = {
    "org.apache.kafka.connect.file.FileStreamSourceConnector": "FileSource",
    "FileStreamSource": "FileSource",
    "io.debezium.connector.postgresql.PostgresConnector": "PostgresSource",
    "PostgresConnector": "PostgresSource",
    "io.confluent.connect.jdbc.JdbcSinkConnector": "JdbcSink",
    "JdbcSinkConnector": "JdbcSink",
}

_PREFIXES = ("transforms.", "predicates.")

ConnectorClass = type[Source] | type[Sink]


class Plugins:
    def __init__(self, modules: tuple[str, ...] = ()) -> None:
        """`modules`: Python modules whose connectors are offered beside Tidelog's own."""
        self._classes: dict[str, ConnectorClass] = {}
        for name in modules:
            try:
                module = import_module(name)
            except ImportError as problem:
                raise InvalidConfig(f"the plugin {name} cannot be imported: {problem}") from None
            for label, member in inspect.getmembers(module, inspect.isclass):
                if issubclass(member, Source | Sink) and member.__module__ == module.__name__:
                    self._classes[label] = member

    def names(self) -> list[str]:
        return sorted({*self._classes, *_OWN})

    def find(self, name: str) -> ConnectorClass:
        """The class of `connector.class`."""
        name = _ALIASES.get(name, name)
        if name not in self._classes:
            if name not in _OWN:
                raise InvalidConfig(unknown(name, self.names(), "connector.class"))
            module, _, label = _OWN[name].partition(":")
            self._classes[name] = getattr(import_module(module), label)
        return self._classes[name]

    def of(self, settings: Mapping[str, str]) -> ConnectorClass:
        if not settings.get("connector.class"):
            raise InvalidConfig(
                'Missing required configuration "connector.class" which has no default value.'
            )
        return self.find(settings["connector.class"])


def is_source(connector: ConnectorClass) -> bool:
    return issubclass(connector, Source)


def settings_of(connector: ConnectorClass) -> Mapping[str, Setting]:
    return {**(FOR_SOURCES if is_source(connector) else FOR_SINKS), **connector.SETTINGS}


def required_of(connector: ConnectorClass) -> frozenset[str]:
    return frozenset(("name", "connector.class")) | connector.REQUIRED


def problems_of(connector: ConnectorClass, given: Mapping[str, str]) -> Problems:
    """What is wrong with these settings, by setting; empty if they can be used."""
    from tidelog.connect.converters import converter_of
    from tidelog.connect.transforms.chain import chain_of

    problems = check_settings(
        settings_of(connector), required_of(connector), _PREFIXES + connector.PREFIXES, given
    )
    if not is_source(connector) and bool(given.get("topics")) == bool(given.get("topics.regex")):
        problems.setdefault("topics", []).append("Give either topics or topics.regex.")
    if problems:
        return problems
    try:
        config = ConnectorConfig(settings_of(connector), placeholders(connector, given))
        for which in ("key", "value"):
            converter_of(config, which)
        chain_of(config)
        connector.check(config)
    except InvalidConfig as problem:
        problems["connector.class"] = [str(problem)]
    return problems


def placeholders(connector: ConnectorClass, given: Mapping[str, str]) -> dict[str, str]:
    """The settings for a check on a worker that may not have what they refer to: a reference stands for itself where text
    is taken, and for the default elsewhere."""
    from tidelog.config.setting import SettingKind
    from tidelog.connect.settings import is_reference

    textual = (SettingKind.STRING, SettingKind.PASSWORD)
    settings = settings_of(connector)
    return {
        name: text
        for name, text in given.items()
        if not (is_reference(text) and name in settings and settings[name].kind not in textual)
    }


def check_all(connector: ConnectorClass, given: Mapping[str, str]) -> None:
    """Raises `InvalidConfig` with everything that is wrong."""
    problems = problems_of(connector, given)
    if problems:
        count = sum(map(len, problems.values()))
        lines = [text for texts in problems.values() for text in texts]
        raise InvalidConfig(
            f"Connector configuration is invalid and contains the following {count} error(s):\n"
            + "\n".join(lines)
        )
