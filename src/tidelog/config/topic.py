"""The parsed settings of one topic, which storage and handlers read.

A topic's own settings take precedence over the broker's defaults; `TopicConfig()` has Kafka's defaults.  A change makes
a new TopicConfig.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tidelog.config.setting import Setting, Value, find, read_table
from tidelog.config.tables.topic import TOPIC
from tidelog.errors import InvalidConfig

TOPIC_SETTINGS: dict[str, Setting] = read_table(TOPIC)

_LARGEST = (1 << 63) - 1
_REPLICAS = re.compile(r"[0-9]+:[0-9]+")
_EVERY_REPLICA = ("*",)
_KEY_NAME = re.compile(r"none|(?:file|vault):[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, slots=True)
class TopicConfig:
    cleanup_policy: frozenset[str] = frozenset(("delete",))
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_type: str = "producer"
    compression_zstd_level: int = 3
    conditional_append_enable: bool = False
    confluent_key_schema_validation: bool = False
    confluent_key_subject_name_strategy: str = "io.confluent.kafka.serializers.subject.TopicNameStrategy"
    confluent_value_schema_validation: bool = False
    confluent_value_subject_name_strategy: str = "io.confluent.kafka.serializers.subject.TopicNameStrategy"
    delete_retention_ms: int = 86_400_000
    encryption_key: str = "none"
    file_delete_delay_ms: int = 60_000
    flush_messages: int = _LARGEST
    flush_ms: int = _LARGEST
    follower_replication_throttled_replicas: tuple[str, ...] = ()
    index_interval_bytes: int = 4096
    leader_replication_throttled_replicas: tuple[str, ...] = ()
    local_retention_bytes: int = -2
    local_retention_ms: int = -2
    max_compaction_lag_ms: int = _LARGEST
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = _LARGEST
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    queue_delay_ms: int = 0
    queue_delete_consumed: bool = False
    queue_groups: tuple[str, ...] = ()
    queue_max_bytes: int = -1
    queue_max_records: int = -1
    queue_overflow: str = "drop-head"
    queue_priorities: bool = False
    queue_ttl_ms: int = -1
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False
    remote_storage_enable: bool = False
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1 << 30
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    unclean_leader_election_enable: bool = False

    @staticmethod
    def of(overrides: Mapping[str, str | None], defaults: TopicConfig | None = None) -> TopicConfig:
        """The topic's own settings (`overrides`) on top of `defaults` (None: Kafka's); InvalidConfig for a wrong setting."""
        base = TopicConfig() if defaults is None else defaults
        if not overrides:
            return base
        parsed = {
            name: find(TOPIC_SETTINGS, name, "topic setting").parse(text) for name, text in overrides.items()
        }
        for name in ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas"):
            _check_replicas(name, parsed.get(name, ()))
        check_key_name("encryption.key", parsed.get("encryption.key", base.encryption_key))
        return base.changed(parsed)

    def check(self) -> None:
        """Checks settings that depend on each other."""
        if self.remote_storage_enable:
            self._check_remote()
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise InvalidConfig(
                f"min.compaction.lag.ms ({self.min_compaction_lag_ms}) must not be larger than "
                f"max.compaction.lag.ms ({self.max_compaction_lag_ms})"
            )

    def _check_remote(self) -> None:
        if "compact" in self.cleanup_policy:
            raise InvalidConfig("Remote log storage is unsupported for the compacted topics")
        if self.encryption_key != "none":
            raise InvalidConfig(
                f"remote.storage.enable cannot be true with encryption.key={self.encryption_key}: copies in remote storage "
                "are not encrypted"
            )
        for kind in ("ms", "bytes"):
            local, total = getattr(self, f"local_retention_{kind}"), getattr(self, f"retention_{kind}")
            if local == -1 and total != -1:
                raise InvalidConfig(
                    f"Invalid value {local} for configuration local.retention.{kind}: Value must not be -1 as "
                    f"retention.{kind} value is set as {total}."
                )
            if total != -1 and local > total:
                raise InvalidConfig(
                    f"Invalid value {local} for configuration local.retention.{kind}: Value must not be more than property: "
                    f"retention.{kind} value: {total}"
                )

    def check_remote_change(self, before: TopicConfig | None, system_enabled: bool) -> None:
        """Checks a topic's remote storage against what the topic had (None: it is new) and whether brokers have any."""
        if self.remote_storage_enable and not system_enabled:
            raise InvalidConfig(
                "Tiered Storage functionality is disabled in the broker. "
                "Topic cannot be configured with remote log storage."
            )
        switched_off = before is not None and before.remote_storage_enable and not self.remote_storage_enable
        if switched_off and not self.remote_log_delete_on_disable:
            raise InvalidConfig(
                "It is invalid to disable remote storage without deleting remote data. "
                "If you want to keep the remote data and turn to read only, please set "
                "`remote.storage.enable=true,remote.log.copy.disable=true`. "
                "If you want to disable remote storage and delete all remote data, please set "
                "`remote.storage.enable=false,remote.log.delete.on.disable=true`."
            )

    def changed(self, values: Mapping[str, Value]) -> TopicConfig:
        """A copy with other values, by setting name."""
        changes: dict[str, Any] = {name.replace(".", "_"): value for name, value in values.items()}
        if "cleanup_policy" in changes:
            changes["cleanup_policy"] = frozenset(changes["cleanup_policy"])
        small = changes.pop("internal_segment_bytes", None)
        if small is not None:
            changes["segment_bytes"] = small
        return replace(self, **changes)


def check_key_name(name: str, value: Value) -> None:
    if not isinstance(value, str) or not _KEY_NAME.fullmatch(value):
        raise InvalidConfig(
            f"{name} cannot be {value!r}: it must be none, file:NAME or vault:NAME, with letters, digits, '.', '_' and "
            f"'-' in the name"
        )


def _check_replicas(name: str, value: Value) -> None:
    assert isinstance(value, tuple)
    if value != _EVERY_REPLICA and not all(_REPLICAS.fullmatch(entry) for entry in value):
        raise InvalidConfig(
            f"{name} cannot be {','.join(value)!r}: it must be * or a list of PARTITION:BROKER"
        )
