"""Requests to coordinators and about replicas, one of each API: what Apache Kafka 4.3 advertises, a request that is valid
in every version, and the errors that are the right answer to it from a broker that knows nobody yet."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from tests.conformance.scene import Scene

ADVERTISED = {
    "offset_commit": (2, 10),
    "offset_fetch": (1, 10),
    "join_group": (0, 9),
    "heartbeat": (0, 4),
    "leave_group": (0, 5),
    "sync_group": (0, 5),
    "describe_groups": (0, 6),
    "list_groups": (0, 5),
    "add_partitions_to_txn": (0, 5),
    "add_offsets_to_txn": (0, 4),
    "end_txn": (0, 5),
    "write_txn_markers": (1, 2),
    "txn_offset_commit": (0, 5),
    "delete_groups": (0, 2),
    "alter_partition_reassignments": (0, 1),
    "list_partition_reassignments": (0, 0),
    "offset_delete": (0, 0),
    "describe_quorum": (0, 2),
    "unregister_broker": (0, 0),
    "add_raft_voter": (0, 1),
    "remove_raft_voter": (0, 0),
    "describe_transactions": (0, 0),
    "list_transactions": (0, 2),
    "consumer_group_heartbeat": (0, 1),
    "consumer_group_describe": (0, 1),
    "share_group_heartbeat": (1, 1),
    "share_group_describe": (1, 1),
    "share_fetch": (1, 2),
    "share_acknowledge": (1, 2),
    "initialize_share_group_state": (0, 0),
    "read_share_group_state": (0, 0),
    "write_share_group_state": (0, 1),
    "delete_share_group_state": (0, 0),
    "read_share_group_state_summary": (0, 1),
    "describe_share_group_offsets": (0, 1),
    "alter_share_group_offsets": (0, 0),
    "delete_share_group_offsets": (0, 0),
}

NO_GROUP = {"group_id_not_found"}
NO_MEMBER = {"unknown_member_id"}
NO_PRODUCER = {"invalid_producer_id_mapping"}
NO_OFFSETS = {"group_id_not_found", "group_subscribed_to_topic", "unknown_topic_or_partition"}
EXPECTED_ERRORS = {
    "join_group": {"member_id_required"},
    "heartbeat": NO_MEMBER,
    "leave_group": NO_MEMBER,
    "sync_group": NO_MEMBER,
    "describe_groups": NO_GROUP,
    "delete_groups": NO_GROUP,
    "offset_delete": NO_GROUP,
    "add_partitions_to_txn": NO_PRODUCER | {"cluster_authorization_failed"},
    "add_offsets_to_txn": NO_PRODUCER,
    "end_txn": NO_PRODUCER,
    "txn_offset_commit": NO_PRODUCER | {"invalid_txn_state"},
    "alter_partition_reassignments": {"no_reassignment_in_progress"},
    "unregister_broker": {"broker_id_not_registered"},
    "add_raft_voter": {"invalid_request"},
    "remove_raft_voter": {"invalid_request"},
    "describe_transactions": {"transactional_id_not_found"},
    "consumer_group_describe": NO_GROUP,
    "share_group_describe": NO_GROUP,
    # Its state begins when a member joins: Kafka says so to a later fetch only.
    "share_fetch": {"unknown_server_error"},
    "share_acknowledge": {"share_session_not_found", "invalid_share_session_epoch"},
    "read_share_group_state": {"invalid_request"},
    "write_share_group_state": {"invalid_request"},
    "read_share_group_state_summary": {"invalid_request"},
    "alter_share_group_offsets": NO_GROUP,
    "delete_share_group_offsets": NO_OFFSETS,
    "describe_share_group_offsets": NO_GROUP,
}

GENERATION = {"generation_id": 1, "member_id": "nobody"}
PRODUCER = {"producer_id": 12345, "producer_epoch": 0}
MEMBER = "3vKZ0Yd1TMeq5uLnWcQh8g"


def offset_commit(s: Scene) -> dict[str, Any]:
    part = {
        "partition_index": 0,
        "committed_offset": 1,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    return {
        "group_id": s.fresh,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "retention_time": -1,
        "topics": [{"name": s.topic, "topic_id": s.topic_id, "partitions": [part]}],
    }


def offset_fetch(s: Scene) -> dict[str, Any]:
    if s.version < 8:
        return {"group_id": s.fresh, "topics": [{"name": s.topic, "partition_indexes": [0]}]}
    asked = {"name": s.topic, "topic_id": s.topic_id, "partition_indexes": [0]}
    group = {"group_id": s.fresh, "member_id": None, "member_epoch": -1, "topics": [asked]}
    return {"groups": [group], "require_stable": True}


def join_group(s: Scene) -> dict[str, Any]:
    return {
        "group_id": s.fresh,
        "session_timeout": 10_000,
        "rebalance_timeout": 10_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }


def leave_group(s: Scene) -> dict[str, Any]:
    return {"group_id": s.fresh, "member_id": "nobody", "members": [{"member_id": "nobody"}]}


def add_partitions(s: Scene) -> dict[str, Any]:
    topics = [{"name": s.topic, "partitions": [0]}]
    if s.version < 4:
        names = {"transactional_id": s.fresh, **PRODUCER, "topics": topics}
        return {f"v3_and_below_{name}": value for name, value in names.items()}
    one = {"transactional_id": s.fresh, **PRODUCER, "verify_only": False, "topics": topics}
    return {"transactions": [one]}


def txn_offset_commit(s: Scene) -> dict[str, Any]:
    part = {
        "partition_index": 0,
        "committed_offset": 1,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    topics = [{"name": s.topic, "partitions": [part]}]
    return {"transactional_id": s.fresh, "group_id": s.fresh, **PRODUCER, "topics": topics}


def consumer_heartbeat(s: Scene) -> dict[str, Any]:
    return {
        "group_id": s.fresh,
        "member_id": MEMBER,
        "member_epoch": 0,
        "rebalance_timeout": 10_000,
        "subscribed_topic_names": [s.topic],
        "topic_partitions": [],
    }


def share_heartbeat(s: Scene) -> dict[str, Any]:
    return {"group_id": s.fresh, "member_id": MEMBER, "member_epoch": 0, "subscribed_topic_names": [s.topic]}


def share_fetch(s: Scene) -> dict[str, Any]:
    return {
        "group_id": s.fresh,
        "member_id": MEMBER,
        "share_session_epoch": 0,
        "max_wait": 0,
        "min_bytes": 0,
        "max_bytes": 1 << 20,
        "max_records": 10,
        "batch_size": 10,
        "topics": [
            {"topic_id": s.topic_id, "partitions": [{"partition_index": 0, "acknowledgement_batches": []}]}
        ],
        "forgotten_topics_data": [],
    }


def share_acknowledge(s: Scene) -> dict[str, Any]:
    return {"group_id": s.fresh, "member_id": str(uuid.uuid4()), "share_session_epoch": 1, "topics": []}


def share_state(**fields: Any) -> Callable[[Scene], dict[str, Any]]:
    def made(s: Scene) -> dict[str, Any]:
        parts = [{"partition": 0, **fields}]
        return {"group_id": s.fresh, "topics": [{"topic_id": s.topic_id, "partitions": parts}]}

    return made


def share_offsets(**part: Any) -> Callable[[Scene], dict[str, Any]]:
    def made(s: Scene) -> dict[str, Any]:
        topic: dict[str, Any] = {"topic_name": s.topic}
        if part:
            topic["partitions"] = [part]
        return {"group_id": s.fresh, "topics": [topic]}

    return made


SAMPLES: dict[str, Callable[[Scene], dict[str, Any]]] = {
    "offset_commit": offset_commit,
    "offset_fetch": offset_fetch,
    "join_group": join_group,
    "heartbeat": lambda s: {"group_id": s.fresh, **GENERATION},
    "leave_group": leave_group,
    "sync_group": lambda s: {
        "group_id": s.fresh,
        **GENERATION,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [],
    },
    "describe_groups": lambda s: {"groups": [s.fresh]},
    "list_groups": lambda s: {},
    "add_partitions_to_txn": add_partitions,
    "add_offsets_to_txn": lambda s: {"transactional_id": s.fresh, **PRODUCER, "group_id": s.fresh},
    "end_txn": lambda s: {"transactional_id": s.fresh, **PRODUCER, "committed": True},
    "write_txn_markers": lambda s: {"markers": []},
    "txn_offset_commit": txn_offset_commit,
    "delete_groups": lambda s: {"groups_names": [s.fresh]},
    "alter_partition_reassignments": lambda s: {
        "timeout": 5000,
        "topics": [{"name": s.topic, "partitions": [{"partition_index": 0, "replicas": None}]}],
    },
    "list_partition_reassignments": lambda s: {"timeout": 5000, "topics": None},
    "offset_delete": lambda s: {
        "group_id": s.fresh,
        "topics": [{"name": s.topic, "partitions": [{"partition_index": 0}]}],
    },
    "describe_quorum": lambda s: {
        "topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    },
    "unregister_broker": lambda s: {"broker_id": 4711},
    "add_raft_voter": lambda s: {"voter_id": 4711},
    "remove_raft_voter": lambda s: {"voter_id": 4711},
    "describe_transactions": lambda s: {"transactional_ids": [s.fresh]},
    "list_transactions": lambda s: {"state_filters": [], "producer_id_filters": []},
    "consumer_group_heartbeat": consumer_heartbeat,
    "consumer_group_describe": lambda s: {"group_ids": [s.fresh]},
    "share_group_heartbeat": share_heartbeat,
    "share_group_describe": lambda s: {"group_ids": [s.fresh]},
    "share_fetch": share_fetch,
    "share_acknowledge": share_acknowledge,
    "initialize_share_group_state": share_state(state_epoch=0, start_offset=0),
    "read_share_group_state": share_state(leader_epoch=0),
    "write_share_group_state": share_state(
        state_epoch=0, leader_epoch=0, start_offset=0, delivery_complete_count=0, state_batches=[]
    ),
    "delete_share_group_state": share_state(),
    "read_share_group_state_summary": share_state(leader_epoch=0),
    "describe_share_group_offsets": lambda s: {
        "groups": [{"group_id": s.fresh, "topics": [{"topic_name": s.topic, "partitions": [0]}]}]
    },
    "alter_share_group_offsets": share_offsets(partition_index=0, start_offset=0),
    "delete_share_group_offsets": share_offsets(),
}
