"""The settings that topics without their own settings take from the broker's, and the checks of their times."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.config.setting import Value
from tidelog.config.topic import TopicConfig
from tidelog.errors import InvalidConfig

_HOURS = 3_600_000
_MINUTES = 60_000

# The broker settings that give a topic setting its default (the first that is set), and the unit of each.
TOPIC_SYNONYMS: dict[str, tuple[tuple[str, int], ...]] = {
    "cleanup.policy": (("log.cleanup.policy", 1),),
    "compression.gzip.level": (("compression.gzip.level", 1),),
    "compression.lz4.level": (("compression.lz4.level", 1),),
    "compression.type": (("compression.type", 1),),
    "compression.zstd.level": (("compression.zstd.level", 1),),
    "delete.retention.ms": (("log.cleaner.delete.retention.ms", 1),),
    "encryption.key": (("encryption.key", 1),),
    "file.delete.delay.ms": (("log.segment.delete.delay.ms", 1),),
    "flush.messages": (("log.flush.interval.messages", 1),),
    "flush.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    "index.interval.bytes": (("log.index.interval.bytes", 1),),
    "local.retention.bytes": (("log.local.retention.bytes", 1),),
    "local.retention.ms": (("log.local.retention.ms", 1),),
    "max.compaction.lag.ms": (("log.cleaner.max.compaction.lag.ms", 1),),
    "max.message.bytes": (("message.max.bytes", 1),),
    "message.timestamp.after.max.ms": (("log.message.timestamp.after.max.ms", 1),),
    "message.timestamp.before.max.ms": (("log.message.timestamp.before.max.ms", 1),),
    "message.timestamp.type": (("log.message.timestamp.type", 1),),
    "min.cleanable.dirty.ratio": (("log.cleaner.min.cleanable.ratio", 1),),
    "min.compaction.lag.ms": (("log.cleaner.min.compaction.lag.ms", 1),),
    "min.insync.replicas": (("min.insync.replicas", 1),),
    "preallocate": (("log.preallocate", 1),),
    "retention.bytes": (("log.retention.bytes", 1),),
    "retention.ms": (
        ("log.retention.ms", 1),
        ("log.retention.minutes", _MINUTES),
        ("log.retention.hours", _HOURS),
    ),
    "segment.bytes": (("log.segment.bytes", 1),),
    "segment.index.bytes": (("log.index.size.max.bytes", 1),),
    "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", _HOURS)),
    "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", _HOURS)),
    "unclean.leader.election.enable": (("unclean.leader.election.enable", 1),),
}


def topic_defaults(values: Mapping[str, Value], base: TopicConfig) -> TopicConfig:
    """The settings of a topic without its own settings: these broker settings on top of `base`."""
    changes: dict[str, Value] = {}
    for topic_name, synonyms in TOPIC_SYNONYMS.items():
        for name, unit in synonyms:
            value = values.get(name)
            if value is not None:
                changes[topic_name] = value * unit if isinstance(value, int) and unit > 1 else value
                break
    _check_times(changes)
    return base.changed(changes)


def _check_times(changes: dict[str, Value]) -> None:
    retention = changes.get("retention.ms")
    if isinstance(retention, int):
        if retention == 0:
            raise InvalidConfig("log.retention.ms cannot be 0: it must be -1 for no limit, or at least 1")
        changes["retention.ms"] = max(-1, retention)
    for topic_name, name, least in (
        ("segment.ms", "log.roll.ms", 1),
        ("segment.jitter.ms", "log.roll.jitter.ms", 0),
    ):
        value = changes.get(topic_name)
        if isinstance(value, int) and value < least:
            raise InvalidConfig(f"{name} cannot be {value}: it must be at least {least}")
