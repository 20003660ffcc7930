"""Builds a metadata image from the store's keys, and the next image from a change.  Pure.

Reading a snapshot and following the watch use the same functions, so that applying change after change gives the same
image as reading a snapshot, whatever the order in which the keys of a topic and of its partitions arrive."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from uuid import UUID

from tidelog.metadata import records
from tidelog.metadata.access import access_records
from tidelog.metadata.image.image import (
    BrokerImage,
    Configs,
    Image,
    StoredPartition,
    StoredQuotas,
    StoredToken,
    TopicImage,
    build_partition,
    build_partitions,
    stored_of,
)
from tidelog.metadata.image.sharded_map import ShardedMap
from tidelog.metadata.records import BrokerRecord, PartitionRecord, TopicRecord
from tidelog.metadata.store import Changes, Snapshot
from tidelog.metadata.tenants import topics_of
from tidelog.net.scram import ScramCredential
from tidelog.types import NodeId
from tidelog.wire.acls import AclBinding
from tidelog.wire.client_quotas import QuotaEntity


@dataclass(frozen=True, slots=True)
class Update:
    """One step: the images before and after it, and the names that differ between them, each once and in order."""

    before: Image
    image: Image
    topics: tuple[str, ...]
    topic_configs: tuple[str, ...]
    brokers: bool
    broker_configs: bool
    group_configs: tuple[str, ...] = ()


class _Written(NamedTuple):
    key: str
    value: bytes | None
    revision: int


def read(snapshot: Snapshot) -> Image:
    """The image of a snapshot of the whole store."""
    written = (_Written(*entry) for entry in snapshot.entries)
    return _Draft(Image()).finish(written, snapshot.revision).image


def advance(image: Image, *steps: Changes) -> Update:
    """Applies one revision, or several consecutive revisions."""
    written = (_Written(*change, step.revision) for step in steps for change in step.changes)
    return _Draft(image).finish(written, steps[-1].revision)


def catch_up(image: Image, snapshot: Snapshot) -> Update:
    """Advances straight to a snapshot, when the store no longer has the changes in between."""
    fresh = _with_same_access(image, read(snapshot))
    topics = {*image.topics, *fresh.topics}
    configs = {*image.topic_configs, *fresh.topic_configs}
    entities = {*image.quotas, *fresh.quotas}
    tenants = [
        entity.tenant
        for entity in entities
        if entity.tenant and image.quotas.get(entity) != fresh.quotas.get(entity)
    ]
    groups = {*image.group_configs, *fresh.group_configs}
    return Update(
        before=image,
        image=fresh,
        topics=tuple(sorted(name for name in topics if image.topics.get(name) != fresh.topics.get(name))),
        topic_configs=tuple(
            sorted(
                {name for name in configs if image.topic_overrides(name) != fresh.topic_overrides(name)}
                | _topics_of_tenants(fresh, tenants)
            )
        ),
        brokers=image.brokers != fresh.brokers,
        broker_configs=image.broker_configs != fresh.broker_configs,
        group_configs=tuple(
            sorted(name for name in groups if image.group_overrides(name) != fresh.group_overrides(name))
        ),
    )


def _topics_of_tenants(image: Image, tenants: Iterable[str]) -> set[str]:
    """The limits of a tenant are a part of its topics' settings."""
    return {name for tenant in tenants for name in topics_of(image, tenant)}


def _with_same_access(image: Image, fresh: Image) -> Image:
    """What did not change stays the same object: caches are made of it."""
    fields = ("acls", "client_metrics", "credentials", "quotas", "tokens")
    same = {name: getattr(image, name) for name in fields if getattr(image, name) == getattr(fresh, name)}
    return replace(fresh, **same)


class _Draft:
    """Collects the differences of the next image key by key, and builds the image at the end."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self._records: dict[str, tuple[TopicRecord, int] | None] = {}
        self._stored: dict[UUID, dict[int, StoredPartition | None]] = {}
        self._topic_configs: dict[str, Configs | None] = {}
        self._group_configs: dict[str, Configs | None] = {}
        self._acls: dict[str, AclBinding | None] = {}
        self._credentials: dict[str, dict[str, ScramCredential | None]] = {}
        self._tokens: dict[str, StoredToken | None] = {}
        self._others: dict[str, Any] = {}
        self._tenants: set[str] = set()

    def finish(self, written: Iterable[_Written], revision: int) -> Update:
        for change in written:
            self._apply(change)
        topics, names = self._finish_topics()
        image = replace(
            self._image,
            revision=revision,
            topics=self._image.topics.changed(topics),
            names=self._image.names.changed(names),
            topic_configs=self._image.topic_configs.changed(self._topic_configs),
            group_configs=self._image.group_configs.changed(self._group_configs),
            acls=self._image.acls.changed(self._acls),
            credentials=self._finish_credentials(),
            tokens=self._image.tokens.changed(self._tokens),
            **self._others,
        )
        return Update(
            before=self._image,
            image=image,
            topics=tuple(sorted(topics)),
            topic_configs=tuple(sorted({*self._topic_configs, *_topics_of_tenants(image, self._tenants)})),
            brokers="brokers" in self._others,
            broker_configs="broker_configs" in self._others,
            group_configs=tuple(sorted(self._group_configs)),
        )

    def _apply(self, change: _Written) -> None:
        key, value, revision = change
        kind, _, rest = key.partition("/")
        if kind == "topics":
            self._records[rest] = None if value is None else (TopicRecord.decode(value), revision)
        elif kind == "partitions":
            topic_id, _, index = rest.partition("/")
            stored = None if value is None else StoredPartition(PartitionRecord.decode(value), revision)
            self._stored.setdefault(UUID(topic_id), {})[int(index)] = stored
        elif kind == "configs":
            self._configs_changed(
                key, None if value is None else Configs(records.decode_configs(value), revision)
            )
        elif kind == "brokers":
            self._broker_changed(
                NodeId(int(rest)), None if value is None else BrokerRecord.decode(value), revision
            )
        elif kind == "acls":
            self._acls[rest] = None if value is None else access_records.decode_acl(value)
        elif kind == "credentials":
            mechanism, _, user = rest.partition("/")
            credential = None if value is None else access_records.decode_credential(value)
            self._credentials.setdefault(mechanism, {})[user] = credential
        elif kind == "tokens":
            record = None if value is None else access_records.TokenRecord.decode(value)
            self._tokens[rest] = None if record is None else StoredToken(record, revision)
        elif kind == "quotas":
            quotas = None if value is None else StoredQuotas(access_records.decode_quotas(value), revision)
            entity = access_records.quota_entity(rest)
            self._set("quotas", entity, quotas)
            if entity.tenant is not None:
                self._tenants.add(entity.tenant)
        elif kind == "tenant-usage":
            usage = None if value is None else records.decode_usage(value)
            self._set("tenant_usage", NodeId(int(rest)), usage)
        elif kind == "tenants":
            self._set("tenant_creations", rest, None if value is None else revision)
        elif key == access_records.SECRET:
            self._others["secret"] = b"" if value is None else bytes.fromhex(value.decode())
        elif key == records.CONTROLLER:
            self._others["controller"] = None if value is None else NodeId(int(value))
        elif key == records.CLUSTER:
            self._others["cluster_id"] = "" if value is None else value.decode()
        # Other keys (producer ids, keys that newer brokers store) are not part of the image.

    # Topics and partitions

    def _finish_topics(self) -> tuple[dict[str, TopicImage | None], dict[UUID, str | None]]:
        topics: dict[str, TopicImage | None] = {}
        names: dict[UUID, str | None] = {}
        for name in self._records:
            topics[name] = None
            before = self._image.topics.get(name)
            if before is not None:
                names[before.id] = None
                self._finish_strays(before.id, stored_of(before), 0)
        for name, written in self._records.items():
            if written is not None:
                record, revision = written
                stored = self._finish_strays(record.id, {}, len(record.replicas))
                topics[name] = TopicImage(
                    name, record.id, build_partitions(record.replicas, stored), revision
                )
                names[record.id] = name
        for topic_id in list(self._stored):
            topic = self._image.topic_by_id(topic_id)
            if topic is None or topic.name in topics:
                self._finish_strays(topic_id, {}, 0)
            else:
                topics[topic.name] = self._with_partitions(topic)
        return topics, names

    def _with_partitions(self, topic: TopicImage) -> TopicImage:
        count = len(topic.partitions)
        changed = self._stored.pop(topic.id)
        partitions = list(topic.partitions)
        for index, stored in changed.items():
            if index < count:
                partitions[index] = build_partition(index, partitions[index].first_replicas, stored)
        self._stored[topic.id] = {index: stored for index, stored in changed.items() if index >= count}
        self._finish_strays(topic.id, {}, 0)
        return topic._replace(partitions=tuple(partitions))

    def _finish_strays(
        self, topic_id: UUID, more: dict[int, StoredPartition], count: int
    ) -> dict[int, StoredPartition]:
        """The stored states of the first `count` partitions of a topic.  The states of its other partitions, and `more`,
        become strays."""
        changed = self._stored.pop(topic_id, {})
        strays = self._others.get("strays", self._image.strays)
        if not changed and not more and topic_id not in strays:
            return {}
        held = {**strays.get(topic_id, {}), **more}
        for index, stored in changed.items():
            if stored is not None:
                held[index] = stored
            else:
                held.pop(index, None)
        stray = {index: stored for index, stored in held.items() if index >= count}
        if stray or topic_id in strays:
            self._set("strays", topic_id, stray or None)
        return {index: stored for index, stored in held.items() if index < count}

    # Settings and brokers

    def _finish_credentials(self) -> Mapping[str, ShardedMap[str, ScramCredential]]:
        if not self._credentials:
            return self._image.credentials
        users = dict(self._image.credentials)
        for mechanism, changes in self._credentials.items():
            users[mechanism] = self._image.users(mechanism).changed(changes)
        return {mechanism: held for mechanism, held in users.items() if held}

    def _configs_changed(self, key: str, configs: Configs | None) -> None:
        if key.startswith(records.TOPIC_CONFIGS):
            self._topic_configs[key[len(records.TOPIC_CONFIGS) :]] = configs
        elif key.startswith(records.GROUP_CONFIGS):
            self._group_configs[key[len(records.GROUP_CONFIGS) :]] = configs
        elif key.startswith(records.CLIENT_METRICS_CONFIGS):
            self._set("client_metrics", key[len(records.CLIENT_METRICS_CONFIGS) :], configs)
        elif key.startswith(records.BROKER_CONFIGS):
            node = key[len(records.BROKER_CONFIGS) :]
            self._set("broker_configs", None if node == records.ALL_BROKERS else NodeId(int(node)), configs)

    def _broker_changed(self, node: NodeId, record: BrokerRecord | None, revision: int) -> None:
        self._set("brokers", node, None if record is None else BrokerImage(node, revision, *record))

    def _set(self, field: str, key: NodeId | UUID | QuotaEntity | str | None, value: Any) -> None:
        """Sets a key in one of the small mappings; None removes the key."""
        mapping = self._others.setdefault(field, dict(getattr(self._image, field)))
        if value is not None:
            mapping[key] = value
        else:
            mapping.pop(key, None)
