"""Applying change after change gives the same image as reading a snapshot, whatever the changes and their order."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.metadata import records
from tidelog.metadata.access import access_records
from tidelog.metadata.image import changes
from tidelog.metadata.image.image import Image
from tidelog.metadata.records import BrokerRecord, Endpoint, PartitionRecord, TopicRecord
from tidelog.metadata.store import Changes, KeyChange, Snapshot, StoredEntry
from tidelog.net.scram import ScramCredential
from tidelog.types import NodeId
from tidelog.wire.acls import AclBinding, AclOperation, AclPatternType, AclPermission, AclResourceType
from tidelog.wire.client_quotas import QuotaEntity

ACL = AclBinding(
    AclResourceType.TOPIC,
    AclPatternType.LITERAL,
    "a",
    "User:ann",
    "*",
    AclOperation.READ,
    AclPermission.ALLOW,
)
ACCESS = ("acls", "credentials", "quotas", "tokens")

nodes = st.integers(0, 3).map(NodeId)
replica_lists = st.lists(nodes, min_size=1, max_size=3, unique=True).map(tuple)
topic_ids = st.integers(1, 4).map(lambda number: UUID(int=number))
topic_names = st.sampled_from(["a", "b", "c.d"])

topic_puts = st.builds(
    lambda name, topic_id, replicas: (
        records.topic_key(name),
        TopicRecord(topic_id, tuple(replicas)).encode(),
    ),
    topic_names,
    topic_ids,
    st.lists(replica_lists, min_size=1, max_size=3),
)
partition_puts = st.builds(
    lambda topic_id, index, leader, epoch, in_sync, doubts, moved, eligible: (
        records.partition_key(topic_id, index),
        PartitionRecord(leader, epoch, in_sync, epoch, doubts, *moved, eligible).encode(),
    ),
    topic_ids,
    st.integers(0, 4),
    st.none() | nodes,
    st.integers(0, 5),
    replica_lists,
    st.just(())
    | st.builds(
        lambda node, epoch, cause: (records.Tail(node, epoch, 7, cause),),
        nodes,
        st.integers(0, 5),
        st.sampled_from(records.Cause),
    ),
    st.just((None, (), ())) | st.tuples(replica_lists, replica_lists, replica_lists),
    st.just(()) | replica_lists,
)
config_puts = st.builds(
    lambda key, value: (key, records.encode_configs({"retention.ms": value})),
    topic_names.map(records.topic_config_key)
    | (st.none() | nodes).map(records.broker_config_key)
    | st.sampled_from(["g", "g/1"]).map(records.group_config_key),
    st.sampled_from(["1", "2"]),
)
broker_puts = st.builds(
    lambda node, rack: (
        records.broker_key(node),
        BrokerRecord((Endpoint("PLAINTEXT", "host", 9092 + node),), rack).encode(),
    ),
    nodes,
    st.none() | st.just("rack"),
)
other_puts = st.sampled_from(
    [
        (records.CONTROLLER, b"1"),
        (records.CONTROLLER, b"2"),
        (records.CLUSTER, b"id"),
        (records.PRODUCER_IDS, b"1000"),
        ("from-the-future/x", b"?"),
    ]
)
acl_puts = st.builds(
    lambda name, principal: (
        access_records.acl_key(acl := ACL._replace(name=name, principal=principal)),
        access_records.encode_acl(acl),
    ),
    topic_names,
    st.sampled_from(["User:ann", "User:*"]),
)
credential_puts = st.builds(
    lambda mechanism, user, iterations: (
        access_records.credential_key(access_records.CredentialName(mechanism, user)),
        access_records.encode_credential(ScramCredential(b"salt", iterations, b"stored", b"server")),
    ),
    st.sampled_from(["SCRAM-SHA-256", "SCRAM-SHA-512"]),
    st.sampled_from(["ann", "a/b"]),
    st.sampled_from([4096, 8192]),
)
quota_puts = st.builds(
    lambda user, client_id, rate: (
        access_records.quota_key(QuotaEntity(user, client_id)),
        access_records.encode_quotas({"producer_byte_rate": rate}),
    ),
    st.none() | st.sampled_from(["", "a&b=c/d", "ann"]),
    st.just("") | st.just("app"),
    st.sampled_from([1.0, 2.0]),
)
token_puts = st.builds(
    lambda token_id, time_ms: (
        access_records.token_key(token_id),
        access_records.TokenRecord("User:ann", "User:ann", ("User:bob",), 1, time_ms, 9).encode(),
    ),
    st.sampled_from(["t", "u"]),
    st.integers(1, 9),
)
access_puts = acl_puts | credential_puts | quota_puts | token_puts | st.just((access_records.SECRET, b"0a"))
puts = topic_puts | partition_puts | config_puts | broker_puts | other_puts | access_puts


def one_topic_has_each_id(stored: dict[str, bytes]) -> bool:
    """Topic ids are random in practice; two topics never have the same id."""
    ids = [TopicRecord.decode(value).id for key, value in stored.items() if key.startswith(records.TOPICS)]
    return len(set(ids)) == len(ids)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_advancing_equals_reading_a_snapshot(data: st.DataObject) -> None:
    stored: dict[str, tuple[bytes, int]] = {}
    image = Image()
    for revision in range(1, data.draw(st.integers(1, 12)) + 1):
        step: dict[str, bytes | None] = {}
        for key, value in data.draw(st.lists(puts, min_size=1, max_size=4)):
            step[key] = value
        for key in data.draw(st.sets(st.sampled_from(sorted(stored)), max_size=3)) if stored else ():
            step[key] = None
        after = {key: (value, revision) for key, value in step.items() if value is not None}
        kept = {key: held for key, held in stored.items() if key not in step}
        if not one_topic_has_each_id({key: value for key, (value, _) in {**kept, **after}.items()}):
            continue
        stored = {**kept, **after}
        before = image
        update = changes.advance(image, Changes(revision, tuple(KeyChange(*item) for item in step.items())))
        image = update.image
        entries = [StoredEntry(key, value, at) for key, (value, at) in sorted(stored.items())]
        fresh = changes.read(Snapshot(revision, entries))
        assert image == fresh
        assert update.before is before
        assert {
            name
            for name in {*before.topics, *fresh.topics}
            if before.topics.get(name) != fresh.topics.get(name)
        } <= {*update.topics}
        caught_up = changes.catch_up(before, Snapshot(revision, entries))
        assert caught_up.image == fresh
        for name in ACCESS:
            was, now = getattr(before, name), getattr(fresh, name)
            # Caches are made of these: another object only when something in it is another.
            assert (getattr(caught_up.image, name) is was) == (was == now)
            if not any(key.startswith(f"{name}/") for key in step):
                assert getattr(image, name) is was
        assert {*caught_up.topics} <= {*update.topics}
        assert {*caught_up.topic_configs} <= {*update.topic_configs}
        assert {*caught_up.group_configs} <= {*update.group_configs}
        assert not caught_up.brokers or update.brokers
        assert not caught_up.broker_configs or update.broker_configs


@settings(deadline=None)
@given(st.lists(topic_puts, min_size=1, max_size=8))
def test_an_advance_leaves_the_image_before_it_alone(steps: list[tuple[str, bytes]]) -> None:
    image = Image()
    seen = []
    for revision, (key, value) in enumerate(steps, 1):
        image = changes.advance(image, Changes(revision, (KeyChange(key, value),))).image
        seen.append((image, dict(image.topics), dict(image.names)))
    for held, topics, names in seen:
        assert dict(held.topics) == topics
        assert dict(held.names) == names


@settings(deadline=None)
@given(
    topics=st.dictionaries(
        topic_names, st.lists(replica_lists, min_size=1, max_size=3).map(tuple), min_size=1
    ),
    record=st.builds(PartitionRecord, st.none() | nodes, st.integers(0, 9), replica_lists, st.integers(0, 9)),
    broker=st.builds(
        BrokerRecord,
        st.lists(st.builds(Endpoint, st.text(), st.text(), st.integers(0, 65535)), max_size=2).map(tuple),
        st.none() | st.text(),
        st.booleans(),
    ),
    configs=st.dictionaries(st.text(), st.text()),
)
def test_records_come_back_as_they_were_written(
    topics: dict[str, tuple[records.Replicas, ...]],
    record: PartitionRecord,
    broker: BrokerRecord,
    configs: dict[str, str],
) -> None:
    for replicas in topics.values():
        topic = TopicRecord(UUID(int=7), replicas)
        assert TopicRecord.decode(topic.encode()) == topic
    assert PartitionRecord.decode(record.encode()) == record
    assert BrokerRecord.decode(broker.encode()) == broker
    assert records.decode_configs(records.encode_configs(configs)) == configs
