"""Writes docs/reference from the tables the code itself uses; `--check` only says whether it is up to date."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import click

from tidelog import errors
from tidelog._speed.log.request_metrics import END_TO_END_BOUNDS_MS, TIME_BOUNDS_MS
from tidelog.broker.metrics.load_meter import DELAY_BOUNDS_MS
from tidelog.broker.routes import ROUTES
from tidelog.cli import cli
from tidelog.config import BROKER_SETTINGS, TOPIC_SETTINGS, Setting
from tidelog.config.tables.groups import GROUP_SETTINGS
from tidelog.connect.plugins import Plugins, is_source
from tidelog.connect.settings import FOR_SINKS, FOR_SOURCES
from tidelog.gateways.amqp.methods.table import HANDLERS
from tidelog.gateways.amqp.wire.methods import BY_NAME, METHODS
from tidelog.gateways.metrics.families import FAMILIES
from tidelog.storage.flush.flusher import FLUSH_BOUNDS_MS
from tidelog.wire.apis import APIS, Api

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "reference"


BETWEEN_CONTROLLERS = (
    "KRaft's own, between controllers or from brokers to them; Tidelog's metadata are in etcd or SQLite"
)
NOT_SERVED: dict[str, str] = {}
REFUSED = {
    "AddRaftVoter": "; refused, as by a cluster with a fixed quorum",
    "RemoveRaftVoter": "; refused, as by a cluster with a fixed quorum",
}


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    names = list(head)
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def apis() -> str:
    rows = [
        (api.key, api.name, f"{api.min}-{api.stable_max}", _served(api))
        for api in sorted(APIS.values(), key=lambda api: api.key)
    ]
    return (
        "# APIs\n\nEvery API of Apache Kafka 4.3 with its versions, and whether Tidelog serves it. "
        "Produce is advertised from version 0, as Kafka does, for the sake of old librdkafka releases.\n\n"
        + table(("Key", "API", "Versions of Kafka 4.3", "Served"), rows)
    )


def _served(api: Api) -> str:
    route = ROUTES.get(api.key)
    if route is None:
        return f"no: {NOT_SERVED[api.name] if api.broker else BETWEEN_CONTROLLERS}"
    if (route.min_version, route.max_version) == (api.min, api.stable_max):
        return f"yes{REFUSED.get(api.name, '')}"
    return f"{route.min_version}-{route.max_version}"


def settings(title: str, about: str, known: dict[str, Setting]) -> str:
    rows = [
        (
            f"`{one.name}`",
            one.kind.name.lower(),
            f"`{one.text(one.default)}`" if one.default not in (None, "", ()) else "",
            one.limits(),
            ("yes" if one.dynamic or known is not BROKER_SETTINGS else "at start")
            if one.built
            else "not applicable",
            f"{one.doc} {one.why_not}".rstrip(),
        )
        for one in sorted(known.values(), key=lambda one: (not one.built, one.name))
        if not one.internal
    ]
    return f"# {title}\n\n{about}\n\n" + table(
        ("Setting", "Type", "Default", "Allowed", "Change", "What it does"), rows
    )


def connectors() -> str:
    text = (
        "# Connectors\n\nThe connectors of `tidelog connect`, and their settings: [connectors](../guide/connect.md).  A "
        "required setting has no default.\n"
    )
    for title, known in (("Settings of all sources", FOR_SOURCES), ("Settings of all sinks", FOR_SINKS)):
        text += f"\n## {title}\n\n{_connector_settings(known, frozenset(('name', 'connector.class')))}"
    plugins = Plugins()
    for name in plugins.names():
        plugin = plugins.find(name)
        kind = "source" if is_source(plugin) else "sink"
        about = (sys.modules[plugin.__module__].__doc__ or "").strip()
        text += f"\n## {name} ({kind})\n\n{about}\n\n{_connector_settings(plugin.SETTINGS, plugin.REQUIRED)}"
    return text


def _connector_settings(known: Mapping[str, Setting], required: frozenset[str]) -> str:
    rows = [
        (
            f"`{one.name}`",
            one.kind.name.lower(),
            "required"
            if one.name in required
            else f"`{one.text(one.default)}`"
            if one.default not in (None, "", ())
            else "",
            one.limits(),
            one.doc,
        )
        for one in known.values()
    ]
    return table(("Setting", "Type", "Default", "Allowed", "Meaning"), rows)


def error_codes() -> str:
    rows = []
    for code in sorted(CODES):
        kind = errors.by_code(code)
        rows.append((code, kind.name, f"`{kind.__name__}`", "yes" if kind.retriable else "", kind.about))
    return (
        "# Errors\n\nCodes of the Kafka protocol and the exceptions that stand for them in Python.\n\n"
        + table(("Code", "Name", "Exception", "Retry", "What it means"), rows)
    )


def metrics() -> str:
    rows = [
        (f"`{one.name}`", one.kind, ", ".join(one.labels), one.doc)
        for one in sorted(FAMILIES.values(), key=lambda one: (one.name.startswith("process_"), one.name))
    ]
    bounds = {
        "mq_produce_latency_ms, mq_request_time_ms": TIME_BOUNDS_MS,
        "mq_end_to_end_latency_ms": END_TO_END_BOUNDS_MS,
        "mq_flush_time_ms": FLUSH_BOUNDS_MS,
        "mq_event_loop_delay_ms": DELAY_BOUNDS_MS,
    }
    return (
        "# Metrics\n\nAt `/metrics` of the HTTP port, in Prometheus's text format. Every broker tells of itself; what "
        "is of the whole cluster is told by one broker. What they mean for operators: "
        "[operating](../guide/operating.md).\n\n"
        + table(("Metric", "Kind", "Labels", "What it says"), rows)
        + "\nBounds of histograms, in milliseconds:\n\n"
        + table(
            ("Metric", "Bounds"),
            [
                (", ".join(f"`{name}`" for name in names.split(", ")), ", ".join(map(str, values)))
                for names, values in bounds.items()
            ],
        )
    )


def commands() -> str:
    text = (
        "# Commands\n\nWhat `--help` says, of all commands. Exit codes: 0 done, 1 something failed, 2 the command line or "
        "a setting is wrong. `TIDELOG_BOOTSTRAP` names the broker for all of them; TLS, log-in, "
        "variables and profiles: [the command line](../guide/command-line.md).\n"
    )
    for words, command in _leaves(cli, ("tidelog",)):
        context = click.Context(command, info_name=" ".join(words), terminal_width=100)
        lines = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
        text += f"\n## {' '.join(words)}\n\n```\n{lines}\n```\n"
    return text


def _leaves(
    command: click.Command, words: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command that does something, with its words."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        if command.invoke_without_command:
            yield words, command
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _leaves(inner, (*words, name))
    else:
        yield words, command


SERVED_BY_THE_CONNECTION = (
    "connection.start-ok",
    "connection.tune-ok",
    "connection.open",
    "connection.close",
    "connection.close-ok",
    "channel.open",
    "channel.close",
    "channel.close-ok",
    "basic.publish",
)


def amqp() -> str:
    served = {*HANDLERS, *SERVED_BY_THE_CONNECTION}
    sent = {name for name in BY_NAME if name.endswith("-ok") and name.removesuffix("-ok") in served} | {
        "connection.start",
        "connection.tune",
        "connection.blocked",
        "connection.unblocked",
        "basic.return",
        "basic.deliver",
        "basic.get-empty",
    }
    rows = [
        (
            spec.name,
            f"{spec.class_id}.{spec.method_id}",
            "served" if spec.name in served else "",
            "sent" if spec.name in sent or spec.name in ("basic.ack", "basic.nack", "basic.cancel") else "",
        )
        for spec in METHODS.values()
    ]
    return (
        "# AMQP 0-9-1\n\nEvery method of AMQP 0-9-1 with RabbitMQ's extensions: whether Tidelog serves it when a client "
        "sends it, and whether Tidelog sends it. A method that is not served closes the connection.\n\n"
        + table(("Method", "Class and method", "From clients", "To clients"), rows)
    )


CODES = [code for code in range(-1, 200) if code and errors.by_code(code).code == code]

_APPLICABILITY = (
    "Names and defaults are Kafka 4.3's. A setting marked *not applicable* can mean nothing here, for the reason that is "
    "given: every value is accepted, and the start says in one line that it has no effect. All other settings act. Settings "
    "that nobody knows are named in a warning at the start, as Apache Kafka does it."
)

PAGES = {
    "amqp.md": amqp,
    "apis.md": apis,
    "commands.md": commands,
    "topic-settings.md": lambda: settings("Topic settings", _APPLICABILITY, TOPIC_SETTINGS),
    "broker-settings.md": lambda: settings("Broker settings", _APPLICABILITY, BROKER_SETTINGS),
    "connectors.md": connectors,
    "group-settings.md": lambda: settings("Group settings", _APPLICABILITY, GROUP_SETTINGS),
    "errors.md": error_codes,
    "metrics.md": metrics,
}


def main(check: bool) -> int:
    stale = []
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, write in PAGES.items():
        text = write()
        path = FOLDER / name
        if not path.exists() or path.read_text() != text:
            stale.append(name)
            if not check:
                path.write_text(text)
    if check and stale:
        print(f"out of date: {', '.join(stale)}: run .venv/bin/python tools/reference.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
