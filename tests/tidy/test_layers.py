"""The shape of the code, as tests: who may import whom, which modules are pure, how large a file may grow."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "tidelog"

# From the bottom up.  A package may import from rows below its own and from itself, not from its neighbours.
LAYERS: list[set[str]] = [
    {"types", "errors", "clock"},
    {"extras", "logs"},
    {"config", "model"},
    {"_speed"},
    {"wire", "record", "schema"},
    {"net"},
    {"metadata", "storage"},
    {"replication"},
    {"coordination"},
    {"groups", "transactions", "access", "registry", "client"},
    {"queues"},
    {"broker", "pipeline", "aio", "events", "rpc"},
    {"backup", "gateways", "connect"},
    {"app"},
    {"testing"},
    {"cli"},
]
NEVER_IN_CLIENTS = {
    "storage",
    "metadata",
    "replication",
    "coordination",
    "groups",
    "transactions",
    "access",
    "registry",
    "broker",
}

# Decisions: facts in, decisions out.  Nothing in them waits, reads a clock or touches a file.
PURE = [
    "access/acls.py",
    "access/audit_events.py",
    "access/login_failures.py",
    "access/oauth.py",
    "access/plain.py",
    "access/principals.py",
    "access/quota_budgets.py",
    "access/quotas.py",
    "access/roles.py",
    "access/scram.py",
    "access/tenants.py",
    "access/tokens.py",
    "app/advertised.py",
    "app/security_warnings.py",
    "backup/manifest.py",
    "backup/new_metadata.py",
    "backup/point.py",
    "broker/fetch_sessions.py",
    "cli/partitions/reassignment_file.py",
    "cli/top/columns.py",
    "cli/top/frame.py",
    "cli/top/keys.py",
    "cli/top/rows.py",
    "cli/top/screen.py",
    "cli/top/view.py",
    "cli/top/window.py",
    "broker/telemetry/export_queue.py",
    "client/admin/placement.py",
    "client/admin/reset_target.py",
    "client/checks.py",
    "client/cluster/addresses.py",
    "client/cluster/backoff.py",
    "client/cluster/options.py",
    "client/cluster/response_errors.py",
    "client/cluster/topology.py",
    "client/consumer/config.py",
    "client/consumer/fetch/assigned_partition.py",
    "client/consumer/fetch/completed_fetch.py",
    "client/consumer/fetch/session.py",
    "client/consumer/metrics.py",
    "client/consumer/options.py",
    "client/consumer/processing/plan.py",
    "client/groups/assignor_data.py",
    "client/groups/assignors.py",
    "client/groups/classic_membership.py",
    "client/groups/consumer_membership.py",
    "client/groups/consumer_protocol.py",
    "client/groups/membership.py",
    "client/groups/metadata.py",
    "client/groups/options.py",
    "client/groups/solo_membership.py",
    "client/groups/sticky_assignor.py",
    "client/producer/batch.py",
    "client/producer/metrics.py",
    "client/producer/options.py",
    "client/producer/partition_queue.py",
    "client/producer/partitioner.py",
    "client/share/acknowledgements.py",
    "client/share/membership.py",
    "client/share/session.py",
    "client/telemetry/otlp_encoder.py",
    "client/telemetry/recent_times.py",
    "client/telemetry/standard_metrics.py",
    "client/telemetry/subscription.py",
    "client/topic_names.py",
    "client/transactions/prepared.py",
    "client/transactions/state.py",
    "connect/converters.py",
    "connect/records.py",
    "connect/rest/changes.py",
    "connect/settings.py",
    "connect/sinks/logical_values.py",
    "connect/sinks/row_changes.py",
    "connect/sources/postgres/column_types.py",
    "connect/sources/postgres/pgoutput.py",
    "connect/state/connectors.py",
    "connect/state/status.py",
    "connect/transforms/chain.py",
    "connect/transforms/debezium.py",
    "connect/transforms/fields.py",
    "connect/transforms/headers.py",
    "connect/transforms/options.py",
    "coordination/records.py",
    "gateways/amqp/confirms.py",
    "gateways/amqp/dead_letters.py",
    "gateways/amqp/message.py",
    "gateways/amqp/replies.py",
    "gateways/amqp/topology/arguments.py",
    "gateways/amqp/topology/checks.py",
    "gateways/amqp/topology/model.py",
    "gateways/amqp/topology/routing.py",
    "gateways/amqp/topology/vhost.py",
    "gateways/amqp/wire/frames.py",
    "gateways/amqp/wire/methods.py",
    "gateways/amqp/wire/properties.py",
    "gateways/amqp/wire/tables.py",
    "gateways/console/parts/amounts.py",
    "gateways/console/parts/chart.py",
    "gateways/console/cluster/health.py",
    "gateways/console/parts/line_diff.py",
    "gateways/console/cluster/history.py",
    "gateways/console/parts/markup.py",
    "gateways/console/cluster/alert_rules.py",
    "gateways/console/parts/table.py",
    "gateways/console/records/readable.py",
    "gateways/http/json_steps.py",
    "gateways/openapi/document.py",
    "gateways/openapi/registry.py",
    "gateways/openapi/rest_v2.py",
    "gateways/openapi/rest_v3.py",
    "gateways/openapi/shapes.py",
    "gateways/rest/codec.py",
    "groups/consumer/assignors.py",
    "groups/classic/group.py",
    "groups/rebalance_times.py",
    "groups/classic/join.py",
    "groups/classic/heartbeat_cadence.py",
    "groups/classic/member.py",
    "groups/classic/sync.py",
    "groups/classic/rebalance.py",
    "groups/consumer/group.py",
    "groups/consumer/classic_members.py",
    "groups/consumer/heartbeat.py",
    "groups/consumer/member.py",
    "groups/consumer/migration.py",
    "groups/consumer/heartbeat_interval.py",
    "groups/consumer/reconciliation.py",
    "groups/consumer/target_assignment.py",
    "groups/consumer/embedded_protocol.py",
    "groups/group.py",
    "groups/record_types.py",
    "groups/state_machine.py",
    "groups/offsets/commits.py",
    "groups/offsets/records.py",
    "groups/offsets/committed.py",
    "groups/consumer/regex.py",
    "groups/record_replay.py",
    "groups/streams/assignor.py",
    "groups/streams/endpoints.py",
    "groups/streams/group.py",
    "groups/streams/heartbeat.py",
    "groups/streams/internal_topics.py",
    "groups/streams/member.py",
    "groups/streams/reconciliation.py",
    "groups/streams/tasks.py",
    "groups/streams/topology.py",
    "groups/share/assignor.py",
    "groups/share/group.py",
    "groups/share/heartbeat.py",
    "groups/share/expiry.py",
    "groups/share/key_order.py",
    "groups/share/partition.py",
    "groups/share/log_window.py",
    "groups/share/acknowledge_types.py",
    "groups/share/in_flight.py",
    "groups/share/joined_acknowledgements.py",
    "groups/share/sessions.py",
    "groups/share/group_state.py",
    "metadata/access/access_records.py",
    "metadata/config_alterations.py",
    "metadata/image/changes.py",
    "metadata/elections/replica_doubts.py",
    "metadata/elections/elections.py",
    "metadata/etcd/messages.py",
    "metadata/image/image.py",
    "metadata/in_sync_changes.py",
    "metadata/internal_replicas.py",
    "metadata/reassignments.py",
    "metadata/tenants.py",
    "metadata/topics/names.py",
    "metadata/topics/placement.py",
    "metadata/topics/plans.py",
    "metadata/records.py",
    "metadata/image/sharded_map.py",
    "metadata/isr_and_election_counts.py",
    "model/advice.py",
    "model/amounts.py",
    "model/capacity.py",
    "model/figures.py",
    "model/plot.py",
    "model/queueing.py",
    "model/scalability.py",
    "registry/requests.py",
    "registry/avro/schema.py",
    "registry/avro/compatibility.py",
    "registry/avro/text.py",
    "registry/avro/types.py",
    "registry/compatibility.py",
    "registry/decisions.py",
    "registry/difference.py",
    "registry/records.py",
    "registry/json/compatibility.py",
    "registry/json/node.py",
    "registry/json/objects.py",
    "registry/json/scalars.py",
    "registry/json/schema.py",
    "registry/pair_comparison.py",
    "registry/protobuf/compatibility.py",
    "registry/protobuf/text.py",
    "registry/protobuf/schema.py",
    "registry/refusal.py",
    "registry/schema.py",
    "registry/settings.py",
    "registry/state.py",
    "registry/subjects.py",
    "pipeline/values/ddl_types.py",
    "pipeline/sink/decision.py",
    "pipeline/values/json_schema_types.py",
    "pipeline/options/text.py",
    "pipeline/source/positions.py",
    "pipeline/source/pushdown.py",
    "pipeline/options/sink.py",
    "pipeline/options/source.py",
    "pipeline/source/offset_ranges.py",
    "pipeline/sql/foreign.py",
    "pipeline/sql/parsed.py",
    "pipeline/sql/rewriting.py",
    "pipeline/sql/direct/json_columns.py",
    "pipeline/sql/direct/plan.py",
    "pipeline/sql/statements.py",
    "queues/delay_index.py",
    "queues/delayed_records.py",
    "queues/message.py",
    "replication/acceptance.py",
    "replication/follower_fetch.py",
    "replication/replica_state.py",
    "replication/throttle.py",
    "schema/proto/files.py",
    "schema/proto/known.py",
    "schema/proto/parser.py",
    "schema/proto/tokens.py",
    "storage/leader_epochs.py",
    "storage/producer_state/producers.py",
    "storage/retention.py",
    "storage/segments/txn_index.py",
    "storage/tiers/manifest.py",
    "storage/tiers/side_file.py",
    "transactions/state_machine.py",
    "transactions/transaction.py",
    "net/on_behalf.py",
    "net/scram.py",
    "net/scram_client.py",
    "wire/acls.py",
    "wire/metadata_pieces.py",
    "wire/client_quotas.py",
]
IMPURE = {"asyncio", "os", "socket", "time", "random", "threading", "subprocess", "secrets"}

LINES_MAX = 600
FUNCTION_LINES_MAX = 70
METHODS_MAX = 30  # a whole seam in one class may need this many


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def sources() -> Iterator[Path]:
    for path in sorted(SOURCE.rglob("*.py")):
        if "wire/messages" not in path.as_posix():
            yield path


def imported(path: Path) -> Iterator[str]:
    """Absolute names of the modules that a file imports, anywhere in it."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            yield node.module or ""
            if node.module == "tidelog":
                yield from (f"tidelog.{alias.name}" for alias in node.names)


def package_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def row(package: str) -> int | None:
    return next((at for at, names in enumerate(LAYERS) if package in names), None)


@pytest.mark.parametrize("path", list(sources()), ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_imports_point_down(path: Path) -> None:
    package = package_of(path)
    if package in ("__init__", "__main__"):
        return
    here = row(package)
    assert here is not None, f"{package} has no place in the layers"
    for name in imported(path):
        parts = name.split(".")
        if parts[0] != "tidelog" or len(parts) == 1:
            continue
        other = parts[1]
        if other == package:
            continue
        there = row(other)
        assert there is not None and there < here, f"{package} must not import {name}"
        if package in ("client", "connect", "pipeline"):
            assert other not in NEVER_IN_CLIENTS, f"{package} must not import {name}"


@pytest.mark.parametrize("name", PURE)
def test_decisions_are_pure(name: str) -> None:
    assert IMPURE.isdisjoint(module.split(".")[0] for module in imported(SOURCE / name))


@pytest.mark.parametrize("path", list(sources()), ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_files_and_functions_fit_their_reader(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= LINES_MAX, "two nouns in one file?"
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or 0) - node.lineno + 1
            assert lines <= FUNCTION_LINES_MAX, f"{node.name} has {lines} lines"
        elif isinstance(node, ast.ClassDef):
            methods = sum(isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) for item in node.body)
            assert methods <= METHODS_MAX, f"{node.name} has {methods} methods"


def test_no_file_is_named_after_nothing() -> None:
    vague = {"utils", "util", "helpers", "common", "manager", "impl", "base", "misc"}
    assert not [path for path in sources() if path.stem in vague]
