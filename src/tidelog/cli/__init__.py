"""The command line: `tidelog NOUN VERB`.  One file per noun, imported when its command runs, so that `tidelog
--help` and shell completion stay quick.  Errors leave as one line on stderr and a non-zero exit code: 1 when
something failed, 2 when the command line or a setting is wrong."""

from __future__ import annotations

import importlib

import click

import tidelog

# name -> (where the command is, what the overview says).  The overview is here so that it needs no import.
COMMANDS = {
    "quickstart": ("tidelog.cli.quickstart:quickstart", "See a broker at work, and leave nothing behind."),
    "serve": ("tidelog.cli.serve:serve", "Run a broker."),
    "dev": ("tidelog.cli.dev.command:dev", "Run a cluster of several brokers on this machine."),
    "metadata": ("tidelog.cli.cluster.metadata:metadata", "Serve the metadata of brokers on one machine."),
    "profile": ("tidelog.cli.connection.profiles:profile", "Keep addresses and log-ins under a name."),
    "topics": ("tidelog.cli.topics.command:topics", "Create, list, describe, alter, copy and delete topics."),
    "configs": ("tidelog.cli.configs:configs", "Show and change settings of topics, brokers and groups."),
    "produce": ("tidelog.cli.records.produce:produce", "Write lines from standard input to a topic."),
    "consume": ("tidelog.cli.records.consume:consume", "Print the records of a topic."),
    "groups": (
        "tidelog.cli.groups.command:groups",
        "Show, reset and delete consumer groups and share groups.",
    ),
    "queues": ("tidelog.cli.groups.queues.command:queues", "Create, list, fill, read and purge queues."),
    "certs": ("tidelog.cli.security.certs:certs", "Create an authority and certificates for TLS."),
    "keys": (
        "tidelog.cli.security.keys:keys",
        "Keys of encryption at rest, and what is encrypted with them.",
    ),
    "users": ("tidelog.cli.security.users:users", "Create, list and delete users, and set passwords."),
    "acls": ("tidelog.cli.security.acls:acls", "Create, list, delete and explain ACLs."),
    "roles": ("tidelog.cli.security.roles:roles", "Grant and revoke roles: bundles of ACLs."),
    "audit": ("tidelog.cli.security.audit:audit", "Show who logged in, was denied, and changed what."),
    "quotas": ("tidelog.cli.quotas:quotas", "Limit how much clients produce, fetch, request and connect."),
    "tenants": ("tidelog.cli.tenants:tenants", "Create, limit and delete tenants, and show what they use."),
    "transactions": ("tidelog.cli.transactions:transactions", "Show and abort transactions."),
    "schemas": ("tidelog.cli.schemas:schemas", "Show, register, check and delete schemas."),
    "partitions": (
        "tidelog.cli.partitions.command:partitions",
        "Reassign partitions, elect leaders, recover partitions.",
    ),
    "brokers": ("tidelog.cli.cluster.brokers:brokers", "Show what brokers hold, and drain a broker."),
    "cluster": (
        "tidelog.cli.cluster.cluster:cluster",
        "Show the health of the cluster, and how two clusters differ.",
    ),
    "backup": (
        "tidelog.cli.backup.command:backup",
        "Back up a running cluster, and restore it as of any moment.",
    ),
    "fork": ("tidelog.cli.backup.fork:fork", "Make a second cluster that shares the files of a running one."),
    "top": ("tidelog.cli.top.command:top", "A live view of topics, groups and brokers."),
    "pipeline": ("tidelog.cli.streams.pipeline:pipeline", "Run pipelines on Spark, and show their progress."),
    "sql": ("tidelog.cli.streams.sql:sql", "Query topics with SQL."),
    "connect": ("tidelog.cli.streams.connect:connect", "Run connectors, and create, show and stop them."),
    "model": (
        "tidelog.cli.model.command:model",
        "Predict queue depth, latency and the best number of consumers.",
    ),
    "plan": ("tidelog.cli.cluster.plan:plan", "Plan storage, brokers, partitions and network for a load."),
    "bench": ("tidelog.cli.bench.command:bench", "Measure throughput and latency of your own cluster."),
    "log": ("tidelog.cli.log.command:log", "Inspect and repair log files on disk."),
}


class LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"use one of {', '.join(COMMANDS)}."
            ctx.fail(f"No such command {args[0]!r}: {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "auto_envvar_prefix": "TIDELOG",
    },
    epilog="Every command has --help with examples.  Every option can be a variable: TIDELOG_BOOTSTRAP and others "
    "that help texts name, and TIDELOG_COMMAND_OPTION for the rest (TIDELOG_TOPICS_CREATE_PARTITIONS).",
)
@click.version_option(tidelog.__version__, message="tidelog %(version)s")
def cli() -> None:
    """Tidelog: a message queue that speaks the Kafka protocol.

    \b
    Start a broker, write and read:
      tidelog serve
      tidelog topics create greetings --partitions 3
      echo hello | tidelog produce greetings
      tidelog consume greetings --from beginning
    """


def main() -> None:
    cli.main(prog_name="tidelog")
