"""Describes settings for DescribeConfigs: the value of each setting, and where it comes from.

Kafka's rules: the synonyms of a setting are the same setting (or the broker setting that is its default) in each layer that
has a value, the strongest layer first; the first synonym gives the source.  A broker setting in other units
(`log.roll.hours`) counts for the value, but is a synonym only if the setting in finer units (`log.roll.ms`) is also set.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

from tidelog.config.broker import BROKER_SETTINGS, BrokerConfig, find_broker_setting
from tidelog.config.listener_security import PREFIX
from tidelog.config.setting import Setting, SettingKind, Value
from tidelog.config.tables.groups import CLIENT_METRICS_SETTINGS, GROUP_BROKER_PREFIX, GROUP_SETTINGS
from tidelog.config.topic import TOPIC_SETTINGS, TopicConfig
from tidelog.config.topic_defaults import TOPIC_SYNONYMS


class SettingSource(IntEnum):
    """The numbers are those of DescribeConfigs."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


@dataclass(frozen=True, slots=True)
class Synonym:
    name: str
    value: str | None
    source: SettingSource


@dataclass(frozen=True, slots=True)
class DescribedSetting:
    name: str
    value: str | None
    source: SettingSource
    read_only: bool
    sensitive: bool
    kind: SettingKind
    documentation: str
    synonyms: tuple[Synonym, ...]

    @property
    def is_default(self) -> bool:
        return self.source is SettingSource.DEFAULT


def describe_topic(
    overrides: Mapping[str, str], broker: BrokerConfig, names: Collection[str] | None = None
) -> Iterator[DescribedSetting]:
    """All settings of a topic whose own settings are `overrides`, or only the settings in `names`."""
    config = TopicConfig.of(overrides, broker.topic_defaults)
    for setting in _chosen(TOPIC_SETTINGS, names):
        if (setting.internal or setting.unlisted) and setting.name not in overrides:
            continue
        value = (
            setting.parse(overrides[setting.name]) if setting.name in overrides else _held(config, setting)
        )
        text = setting.text(value)
        synonyms = _topic_synonyms(setting.name, broker)
        if setting.name in overrides:
            synonyms = (Synonym(setting.name, text, SettingSource.TOPIC), *synonyms)
        yield _entry(setting, text, synonyms, read_only=False)


def describe_broker(config: BrokerConfig, names: Collection[str] | None = None) -> Iterator[DescribedSetting]:
    """All settings of this broker, or only the settings in `names`."""
    for setting in _chosen(BROKER_SETTINGS, names):
        if setting.internal:
            continue
        text = _broker_text(setting, config)
        synonyms = _broker_synonyms(setting.name, _finer(setting.name), config)
        if setting.unlisted and (not synonyms or synonyms[0].source is SettingSource.DEFAULT):
            continue
        yield _entry(setting, text, synonyms, read_only=not setting.dynamic)
    yield from _overrides(config, names)


def _overrides(config: BrokerConfig, names: Collection[str] | None) -> Iterator[DescribedSetting]:
    """Settings of one listener: each that some layer has; the setting of the whole broker is among its synonyms."""
    layers = (
        (config.dynamic_here, SettingSource.DYNAMIC_BROKER),
        (config.dynamic_all, SettingSource.DYNAMIC_DEFAULT_BROKER),
        (config.given, SettingSource.STATIC_BROKER),
    )
    for name in sorted({name for layer, _ in layers for name in layer if name.startswith(PREFIX)}):
        if names and name not in names:
            continue
        setting = find_broker_setting(name)
        own = [
            Synonym(name, None if setting.sensitive else layer[name], source)
            for layer, source in layers
            if name in layer
        ]
        text = next(layer[name] for layer, _ in layers if name in layer)
        synonyms = (*own, *_broker_synonyms(setting.name, [setting.name], config))
        yield _entry(setting, text, synonyms, read_only=not setting.dynamic, name=name)


def describe_all_brokers(
    config: BrokerConfig, names: Collection[str] | None = None
) -> Iterator[DescribedSetting]:
    """Only the dynamic settings of all brokers."""
    for setting in _chosen(BROKER_SETTINGS, names):
        if setting.name in config.dynamic_all:
            text = config.dynamic_all[setting.name]
            synonym = Synonym(
                setting.name, None if setting.sensitive else text, SettingSource.DYNAMIC_DEFAULT_BROKER
            )
            yield _entry(setting, text, (synonym,), read_only=not setting.dynamic)
    for name, text in config.dynamic_all.items():
        if name.startswith(PREFIX) and (not names or name in names):
            setting = find_broker_setting(name)
            shown = None if setting.sensitive else text
            synonym = Synonym(name, shown, SettingSource.DYNAMIC_DEFAULT_BROKER)
            yield _entry(setting, text, (synonym,), read_only=not setting.dynamic, name=name)


def describe_group(
    overrides: Mapping[str, str], broker: BrokerConfig, names: Collection[str] | None = None
) -> Iterator[DescribedSetting]:
    """All settings of a group whose own settings are `overrides`, or only the settings in `names`."""
    for setting in _chosen(GROUP_SETTINGS, names):
        if setting.unlisted and setting.name not in overrides:
            continue
        synonyms = _group_synonyms(setting, broker)
        if setting.name in overrides:
            text = setting.text(setting.parse(overrides[setting.name]))
            synonyms = (Synonym(setting.name, text, SettingSource.GROUP), *synonyms)
        yield _entry(setting, synonyms[0].value, synonyms, read_only=False)


def _group_synonyms(setting: Setting, broker: BrokerConfig) -> tuple[Synonym, ...]:
    broker_name = GROUP_BROKER_PREFIX + setting.name
    if broker_name in BROKER_SETTINGS:
        return _broker_synonyms(broker_name, [broker_name], broker)
    return (Synonym(setting.name, setting.text(setting.default), SettingSource.DEFAULT),)


def describe_client_metrics(
    values: Mapping[str, str], names: Collection[str] | None = None
) -> Iterator[DescribedSetting]:
    """The settings of a subscription of client metrics: its own, then Kafka's defaults."""
    for setting in _chosen(CLIENT_METRICS_SETTINGS, names):
        default = Synonym(setting.name, setting.text(setting.default), SettingSource.DEFAULT)
        own = values.get(setting.name)
        synonyms = (
            (default,) if own is None else (Synonym(setting.name, own, SettingSource.CLIENT_METRICS), default)
        )
        yield _entry(setting, synonyms[0].value, synonyms, read_only=False)


def _chosen(settings: Mapping[str, Setting], names: Collection[str] | None) -> Iterator[Setting]:
    wanted = set(names) if names else None
    return (setting for setting in settings.values() if wanted is None or setting.name in wanted)


def _entry(
    setting: Setting,
    text: str | None,
    synonyms: tuple[Synonym, ...],
    read_only: bool,
    name: str | None = None,
) -> DescribedSetting:
    return DescribedSetting(
        name or setting.name,
        None if setting.sensitive else text,
        synonyms[0].source if synonyms else SettingSource.DEFAULT,
        read_only,
        setting.sensitive,
        setting.kind,
        setting.documentation,
        synonyms,
    )


def _held(config: TopicConfig, setting: Setting) -> Value:
    value: Value | frozenset[str] = getattr(config, setting.attribute)
    return tuple(sorted(value)) if isinstance(value, frozenset) else value


def _topic_synonyms(name: str, broker: BrokerConfig) -> tuple[Synonym, ...]:
    if name not in TOPIC_SYNONYMS:
        return ()
    names = [broker_name for broker_name, _ in TOPIC_SYNONYMS[name]]
    return _broker_synonyms(names[0], names, broker)


def _finer(name: str) -> list[str]:
    """All settings of the same value as `name`: itself, and for times the same setting in other units."""
    for synonyms in TOPIC_SYNONYMS.values():
        names = [broker_name for broker_name, _ in synonyms]
        # The scheduler's interval is only a fallback of log.flush.interval.ms, not the same setting in other units.
        if name in names and name != "log.flush.scheduler.interval.ms":
            return names
    return [name]


def _broker_synonyms(name: str, names: list[str], config: BrokerConfig) -> tuple[Synonym, ...]:
    layers = (
        (config.dynamic_here, SettingSource.DYNAMIC_BROKER),
        (config.dynamic_all, SettingSource.DYNAMIC_DEFAULT_BROKER),
        (_given(config), SettingSource.STATIC_BROKER),
        (_DEFAULTS, SettingSource.DEFAULT),
    )
    synonyms = [
        Synonym(synonym, None if BROKER_SETTINGS[synonym].sensitive else layer[synonym], source)
        for layer, source in layers
        for synonym in names
        if synonym in layer
    ]
    while synonyms and synonyms[0].name != name:
        synonyms.pop(0)
    return tuple(synonyms)


def _given(config: BrokerConfig) -> Mapping[str, str]:
    """The settings given at the start, with the node id under both of its names."""
    if "node.id" not in config.given and "broker.id" not in config.given:
        return config.given
    node_id = str(config.node_id)
    return {**config.given, "node.id": node_id, "broker.id": node_id}


def _broker_text(setting: Setting, config: BrokerConfig) -> str | None:
    for layer in (config.dynamic_here, config.dynamic_all, _given(config)):
        if setting.name in layer:
            return setting.text(setting.parse(layer[setting.name]))
    return setting.text(setting.default)


_DEFAULTS: dict[str, str] = {
    setting.name: text
    for setting in BROKER_SETTINGS.values()
    if (text := setting.text(setting.default)) is not None
}
