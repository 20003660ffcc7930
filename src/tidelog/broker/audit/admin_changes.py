"""Which Kafka requests change something an administrator answers for, and what of each change is recorded.  A test checks
that every API that is served is in one of the two tables.

Requests are read before guards and handlers, which take out of them what is not allowed; outcomes are read in the answer.
Errors of authorization are left out here, since the gate has recorded the denial.  Secrets are left out: passwords, salts,
token hashes, and the values of settings that are secret, or that are not known."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple

from tidelog import errors
from tidelog.access.audit_events import HIDDEN
from tidelog.broker.services import Context
from tidelog.config import TOPIC_SETTINGS
from tidelog.config.broker import find_broker_setting
from tidelog.config.tables.groups import CLIENT_METRICS_SETTINGS, GROUP_SETTINGS
from tidelog.groups.held_heartbeats import HeldAnswer
from tidelog.net.scram import MECHANISM_CODES
from tidelog.wire.acls import AclOperation, AclPatternType, AclPermission, AclResourceType
from tidelog.wire.error_codes import error_codes
from tidelog.wire.message import Message

TOPIC, GROUP, CLUSTER, USER = "TOPIC", "GROUP", "CLUSTER", "USER"
_CONFIG_KINDS = {2: TOPIC, 4: "BROKER", 8: "BROKER_LOGGER", 16: "CLIENT_METRICS", 32: GROUP}
_ALTERATIONS = {0: "set", 1: "delete", 2: "append", 3: "subtract"}
_DENIALS = frozenset(
    problem.code
    for problem in (
        errors.TopicAuthorizationFailed,
        errors.GroupAuthorizationFailed,
        errors.ClusterAuthorizationFailed,
        errors.TransactionalIdAuthorizationFailed,
        errors.DelegationTokenAuthorizationFailed,
    )
)


class AdminChange(NamedTuple):
    resource_type: str
    resource: str
    change: dict[str, Any]


Changes = Callable[[Any, Context], Iterable[AdminChange]]
Codes = Callable[[Any], dict[str, int]]
"""A function from an answer to the first error code of each resource."""


def _shown_config(resource_type: str, name: str, value: str | None) -> str | None:
    """The value, unless it is secret."""
    if value is None:
        return None
    try:
        if resource_type == "BROKER":
            return HIDDEN if find_broker_setting(name).sensitive else value
    except errors.TidelogError:
        return HIDDEN  # a name that was mistyped may stand before a password
    tables = {TOPIC: TOPIC_SETTINGS, GROUP: GROUP_SETTINGS, "CLIENT_METRICS": CLIENT_METRICS_SETTINGS}
    if resource_type == "BROKER_LOGGER":
        return value
    setting = tables.get(resource_type, {}).get(name)
    return HIDDEN if setting is None or setting.sensitive else value


def _created_topics(request: Any, context: Context) -> Iterable[AdminChange]:
    if request.validate_only:
        return
    for topic in request.topics:
        change: dict[str, Any] = {
            "partitions": topic.num_partitions,
            "replication_factor": topic.replication_factor,
        }
        if topic.configs:
            change["configs"] = {
                config.name: _shown_config(TOPIC, config.name, config.value) for config in topic.configs
            }
        yield AdminChange(TOPIC, topic.name, change)


def _deleted_topics(request: Any, context: Context) -> Iterable[AdminChange]:
    names = list(request.topic_names or ())
    for topic in request.topics or ():
        topic_image = context.services.image().topic_by_id(topic.topic_id) if topic.name is None else None
        names.append(topic.name or (topic_image.name if topic_image is not None else str(topic.topic_id)))
    for name in names:
        yield AdminChange(TOPIC, name, {})


def _added_partitions(request: Any, context: Context) -> Iterable[AdminChange]:
    if not request.validate_only:
        for topic in request.topics:
            yield AdminChange(TOPIC, topic.name, {"partitions": topic.count})


def _deleted_records(request: Any, context: Context) -> Iterable[AdminChange]:
    for topic in request.topics:
        before = {str(part.partition_index): part.offset for part in topic.partitions}
        yield AdminChange(TOPIC, topic.name, {"before": before})


def _altered_configs(request: Any, context: Context) -> Iterable[AdminChange]:
    if request.validate_only:
        return
    for resource in request.resources:
        kind = _CONFIG_KINDS.get(resource.resource_type, str(resource.resource_type))
        change = {
            config.name: {
                _ALTERATIONS.get(getattr(config, "config_operation", 0), "set"): _shown_config(
                    kind, config.name, config.value
                )
            }
            for config in resource.configs
        }
        yield AdminChange(kind, resource.resource_name, change)


def _created_acls(request: Any, context: Context) -> Iterable[AdminChange]:
    for acl in request.creations:
        kind = _name(AclResourceType, acl.resource_type)
        change = {
            "pattern": _name(AclPatternType, acl.resource_pattern_type),
            "principal": acl.principal,
            "host": acl.host,
            "operation": _name(AclOperation, acl.operation),
            "permission": _name(AclPermission, acl.permission_type),
        }
        yield AdminChange(kind, acl.resource_name, change)


def _deleted_acls(request: Any, context: Context) -> Iterable[AdminChange]:
    for acl in request.filters:
        kind = _name(AclResourceType, acl.resource_type_filter)
        change = {
            "pattern": _name(AclPatternType, acl.pattern_type_filter),
            "principal": acl.principal_filter,
            "host": acl.host_filter,
            "operation": _name(AclOperation, acl.operation),
            "permission": _name(AclPermission, acl.permission_type),
        }
        yield AdminChange(kind, acl.resource_name_filter or "*", change)


def _altered_quotas(request: Any, context: Context) -> Iterable[AdminChange]:
    if request.validate_only:
        return
    for entry in request.entries:
        change = {op.key: None if op.remove else op.value for op in entry.ops}
        yield AdminChange("CLIENT_QUOTA", _entity(entry.entity), change)


def _entity(entity: Iterable[Any]) -> str:
    return ",".join(f"{part.entity_type}={part.entity_name or '<default>'}" for part in entity)


def _altered_users(request: Any, context: Context) -> Iterable[AdminChange]:
    names = {code: name for name, code in MECHANISM_CODES.items()}
    for deletion in request.deletions:
        mechanism = names.get(deletion.mechanism, str(deletion.mechanism))
        yield AdminChange(USER, deletion.name, {"deleted": mechanism})
    for upsertion in request.upsertions:
        mechanism = names.get(upsertion.mechanism, str(upsertion.mechanism))
        yield AdminChange(USER, upsertion.name, {"set": mechanism, "iterations": upsertion.iterations})


def _created_token(request: Any, context: Context) -> Iterable[AdminChange]:
    owner = f"{request.owner_principal_type}:{request.owner_principal_name}"
    change = {
        "renewers": [f"{renewer.principal_type}:{renewer.principal_name}" for renewer in request.renewers],
        "max_lifetime_ms": request.max_lifetime_ms,
    }
    own = not request.owner_principal_name
    yield AdminChange("DELEGATION_TOKEN", context.principal if own else owner, change)


def _renewed_token(request: Any, context: Context) -> Iterable[AdminChange]:
    yield AdminChange("DELEGATION_TOKEN", HIDDEN, {"renew_period_ms": request.renew_period_ms})


def _expired_token(request: Any, context: Context) -> Iterable[AdminChange]:
    yield AdminChange("DELEGATION_TOKEN", HIDDEN, {"expiry_time_period_ms": request.expiry_time_period_ms})


def _elected_leaders(request: Any, context: Context) -> Iterable[AdminChange]:
    kind = "unclean" if request.election_type else "preferred"
    if request.topic_partitions is None:
        yield AdminChange(CLUSTER, "kafka-cluster", {"election": kind, "partitions": "all"})
    for topic in request.topic_partitions or ():
        yield AdminChange(TOPIC, topic.topic, {"election": kind, "partitions": list(topic.partitions)})


def _reassigned(request: Any, context: Context) -> Iterable[AdminChange]:
    for topic in request.topics:
        replicas = {str(part.partition_index): part.replicas for part in topic.partitions}
        yield AdminChange(TOPIC, topic.name, {"replicas": replicas})


def _moved_log_dirs(request: Any, context: Context) -> Iterable[AdminChange]:
    for log_dir in request.dirs:
        for topic in log_dir.topics:
            yield AdminChange(
                TOPIC, topic.name, {"log_dir": log_dir.path, "partitions": list(topic.partitions)}
            )


def _unregistered(request: Any, context: Context) -> Iterable[AdminChange]:
    yield AdminChange("BROKER", str(request.broker_id), {})


def _added_voter(request: Any, context: Context) -> Iterable[AdminChange]:
    listeners = {listener.name: f"{listener.host}:{listener.port}" for listener in request.listeners}
    change = {"voter_added": str(request.voter_directory_id), "listeners": listeners}
    yield AdminChange("CONTROLLER", str(request.voter_id), change)


def _removed_voter(request: Any, context: Context) -> Iterable[AdminChange]:
    yield AdminChange("CONTROLLER", str(request.voter_id), {"voter_removed": str(request.voter_directory_id)})


def _updated_features(request: Any, context: Context) -> Iterable[AdminChange]:
    if not request.validate_only:
        for update in request.feature_updates:
            yield AdminChange("FEATURE", update.feature, {"max_version_level": update.max_version_level})


def _deleted_groups(request: Any, context: Context) -> Iterable[AdminChange]:
    for group in request.groups_names:
        yield AdminChange(GROUP, group, {})


def _deleted_offsets(request: Any, context: Context) -> Iterable[AdminChange]:
    topics = {
        topic.name: [part.partition_index for part in topic.partitions] for topic in request.topics or ()
    }
    yield AdminChange(GROUP, request.group_id, {"offsets_deleted": topics})


def _reset_offsets(request: Any, context: Context) -> Iterable[AdminChange]:
    """A commit that no member makes, to a group that has or had members: that moves its consumers.  Consumers that assign
    their partitions themselves commit in this way, too; their groups never have members."""
    if request.generation_id_or_member_epoch >= 0 or not context.services.groups.has_had_members(
        request.group_id
    ):
        return
    images = context.services.image()
    offsets = {}
    for topic in request.topics:
        known = None if topic.name else images.topic_by_id(topic.topic_id)
        name = topic.name or (str(topic.topic_id) if known is None else known.name)
        offsets[name] = {str(part.partition_index): part.committed_offset for part in topic.partitions}
    yield AdminChange(GROUP, request.group_id, {"offsets": offsets})


def _altered_share_offsets(request: Any, context: Context) -> Iterable[AdminChange]:
    offsets = {
        topic.topic_name: {str(part.partition_index): part.start_offset for part in topic.partitions}
        for topic in request.topics
    }
    yield AdminChange(GROUP, request.group_id, {"start_offsets": offsets})


def _deleted_share_offsets(request: Any, context: Context) -> Iterable[AdminChange]:
    yield AdminChange(
        GROUP, request.group_id, {"offsets_deleted": [topic.topic_name for topic in request.topics]}
    )


def _name(codes: Any, code: int) -> str:
    try:
        return str(codes(code).name)
    except ValueError:
        return str(code)


def _first_codes(results: str, name: str) -> Codes:
    """Reads answers with a list `results`, whose elements have a name and any number of error codes."""

    def codes(response: Any) -> dict[str, int]:
        if getattr(response, "error_code", 0):
            return {"": response.error_code}
        return {str(getattr(result, name) or "?"): _code_of(result) for result in getattr(response, results)}

    return codes


def _code_of(result: Any) -> int:
    """Its own, or the first one of its partitions."""
    own = getattr(result, "error_code", None)
    return next(iter(error_codes(result)), 0) if own is None else int(own)


def _whole(response: Any) -> dict[str, int]:
    return {"": next(iter(error_codes(response)), 0)}


def _one_by_one(results: str) -> Codes:
    def codes(response: Any) -> dict[str, int]:
        return {f"#{number}": result.error_code for number, result in enumerate(getattr(response, results))}

    return codes


def _quota_codes(response: Any) -> dict[str, int]:
    return {_entity(entry.entity): entry.error_code for entry in response.entries}


CHANGES: dict[str, tuple[Changes, Codes]] = {
    "CreateTopics": (_created_topics, _first_codes("topics", "name")),
    "DeleteTopics": (_deleted_topics, _first_codes("responses", "name")),
    "CreatePartitions": (_added_partitions, _first_codes("results", "name")),
    "DeleteRecords": (_deleted_records, _first_codes("topics", "name")),
    "AlterConfigs": (_altered_configs, _first_codes("responses", "resource_name")),
    "IncrementalAlterConfigs": (_altered_configs, _first_codes("responses", "resource_name")),
    "CreateAcls": (_created_acls, _one_by_one("results")),
    "DeleteAcls": (_deleted_acls, _one_by_one("filter_results")),
    "AlterClientQuotas": (_altered_quotas, _quota_codes),
    "AlterUserScramCredentials": (_altered_users, _first_codes("results", "user")),
    "CreateDelegationToken": (_created_token, _whole),
    "RenewDelegationToken": (_renewed_token, _whole),
    "ExpireDelegationToken": (_expired_token, _whole),
    "ElectLeaders": (_elected_leaders, _first_codes("replica_election_results", "topic")),
    "AlterPartitionReassignments": (_reassigned, _first_codes("responses", "name")),
    "AlterReplicaLogDirs": (_moved_log_dirs, _first_codes("results", "topic_name")),
    "UnregisterBroker": (_unregistered, _whole),
    "AddRaftVoter": (_added_voter, _whole),
    "RemoveRaftVoter": (_removed_voter, _whole),
    "UpdateFeatures": (_updated_features, _first_codes("results", "feature")),
    "DeleteGroups": (_deleted_groups, _first_codes("results", "group_id")),
    "OffsetCommit": (_reset_offsets, _whole),
    "OffsetDelete": (_deleted_offsets, _whole),
    "AlterShareGroupOffsets": (_altered_share_offsets, _whole),
    "DeleteShareGroupOffsets": (_deleted_share_offsets, _whole),
}

# What clients do with data, and what members of groups and transactions do.
_OF_CLIENTS = """
Produce Fetch JoinGroup Heartbeat LeaveGroup SyncGroup ConsumerGroupHeartbeat ShareGroupHeartbeat StreamsGroupHeartbeat
ShareFetch ShareAcknowledge InitProducerId AddPartitionsToTxn AddOffsetsToTxn EndTxn TxnOffsetCommit PushTelemetry
"""
# What brokers do for each other.
_OF_BROKERS = """
WriteTxnMarkers InitializeShareGroupState ReadShareGroupState WriteShareGroupState DeleteShareGroupState
ReadShareGroupStateSummary
"""
# `broker.login` records log-ins.
_OF_LOGINS = "ApiVersions SaslHandshake SaslAuthenticate"
_READING = """
ListOffsets Metadata OffsetFetch FindCoordinator DescribeGroups ListGroups DescribeTransactions ListTransactions
OffsetForLeaderEpoch DescribeConfigs DescribeAcls DescribeDelegationToken DescribeClientQuotas
DescribeUserScramCredentials DescribeLogDirs ListPartitionReassignments DescribeQuorum DescribeCluster DescribeProducers
ConsumerGroupDescribe ShareGroupDescribe StreamsGroupDescribe DescribeShareGroupOffsets GetTelemetrySubscriptions
ListConfigResources DescribeTopicPartitions
"""
UNRECORDED = frozenset(f"{_OF_CLIENTS} {_OF_BROKERS} {_OF_LOGINS} {_READING}".split())


def recorded(name: str, handle: Callable[[Any, Context], Any]) -> Callable[[Any, Context], Any]:
    """The handler of an API in `CHANGES`, guard included, with its changes recorded."""
    changes_of, codes_of = CHANGES[name]

    def handler(request: Any, context: Context) -> Any:
        changes = list(changes_of(request, context))
        answer = handle(request, context)
        if isinstance(answer, Message):
            _record(name, changes, codes_of(answer), context)
            return answer
        assert not isinstance(answer, HeldAnswer), f"{name} is answered at once, or awaited"
        return _awaited(answer, changes, context)

    async def _awaited(answer: Awaitable[Message], changes: list[AdminChange], context: Context) -> Message:
        response = await answer
        _record(name, changes, codes_of(response), context)
        return response

    return handler


def _record(name: str, changes: list[AdminChange], codes: dict[str, int], context: Context) -> None:
    audit = context.services.gate.audit
    for number, change in enumerate(changes):
        of_all = codes.get("", 0)
        code = of_all or codes.get(change.resource, codes.get(f"#{number}", 0))
        if code in _DENIALS:
            continue
        problem = None if code == errors.NONE else errors.name_of(code)
        audit.changed(context.session, name, change.resource_type, change.resource, change.change, problem)
