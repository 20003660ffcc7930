"""`tidelog connect`: worker, plugins, create, list, describe, pause, resume, stop, restart, logs, delete."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import quote, urlsplit

import click

from tidelog.cli.connection.command_config import ClientLogin, RegistryLogin, check_encrypted
from tidelog.cli.connection.options import (
    bootstrap_option,
    command_config_option,
    json_option,
    timeout_option,
)
from tidelog.cli.output import print_json, print_table
from tidelog.cli.session import Failure, command_help, pairs, run

if TYPE_CHECKING:
    from tidelog.aio import Security

F = TypeVar("F", bound=Callable[..., Any])

WORKER = "http://127.0.0.1:8083"


class WorkerSession(NamedTuple):
    """The REST API that a command talks to: Tidelog's, or Kafka Connect's."""

    url: str
    timeout_s: float
    json: bool
    login: RegistryLogin

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        import urllib.error
        import urllib.request

        data = None if body is None else json.dumps(body).encode()
        headers = {} if data is None else {"Content-Type": "application/json"}
        if self.login.of_brokers:
            check_encrypted(self.url, "basic.auth.user.info")
        authorization = self.login.header(urlsplit(self.url).hostname or "")
        if authorization is not None:
            headers["Authorization"] = authorization
        request = urllib.request.Request(self.url.rstrip("/") + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(
                request, timeout=self.timeout_s, context=self.login.context
            ) as answer:
                text = answer.read()
        except urllib.error.HTTPError as problem:
            raise Failure(*_message(problem.read(), problem.code).splitlines()) from None
        except (OSError, ValueError) as problem:
            reason = getattr(problem, "reason", problem)
            raise Failure(
                f"{self.url} does not answer: {reason}.  Is a worker running there (tidelog connect worker)?"
            ) from None
        return json.loads(text) if text else None


def _message(body: bytes, status: int) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return f"the worker answered with status {status}"


def worker_options(command: F) -> F:
    """Adds --worker, --command-config, --timeout and --json; the command gets a `WorkerSession` first."""

    @functools.wraps(command)
    def with_session(
        *args: Any, worker: str, timeout: float, as_json: bool, command_config: Path | None, **kwargs: Any
    ) -> Any:
        login = RegistryLogin() if command_config is None else ClientLogin(command_config).registry_login()
        return command(WorkerSession(worker, timeout, as_json, login), *args, **kwargs)

    wrapped = with_session
    for option in (
        json_option,
        timeout_option("worker"),
        command_config_option,
        click.option(
            "--worker",
            envvar="TIDELOG_CONNECT",
            default=WORKER,
            show_default=True,
            show_envvar=True,
            metavar="URL",
            callback=_check_url,
            help="The REST API of any worker.",
        ),
    ):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[return-value]


def _check_url(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if urlsplit(value).scheme not in ("http", "https"):
        raise click.BadParameter(f"{value!r} does not begin with http:// or https://")
    return value


def _path(name: str, rest: str = "") -> str:
    return f"/connectors/{quote(name, safe='')}{rest}"


_name = click.argument("name")


@click.group(help="Run connectors, and create, show and stop them.")
def connect() -> None:
    pass


@connect.command(
    help=command_help(
        "Run a worker, until the command is stopped.  Workers of one group share their connectors, and take over those of "
        "a worker that died.  The worker serves Kafka Connect's REST API.",
        """
tidelog connect worker
tidelog connect worker --bootstrap b1:9092,b2:9092 --plugin shop.connectors
tidelog connect worker --command-config worker.properties --listen 10.0.0.5:8083 --certificate worker.pem
""",
    )
)
@bootstrap_option
@command_config_option
@click.option(
    "--group",
    default="connect",
    show_default=True,
    help="The group of workers; also begins the names of its topics.",
)
@click.option(
    "--listen",
    default="127.0.0.1:8083",
    show_default=True,
    metavar="HOST:PORT",
    help="Where to serve the REST API.",
)
@click.option(
    "--advertise", metavar="HOST:PORT", help="The address at which other workers reach it, if not --listen."
)
@click.option(
    "--authentication",
    type=click.Choice(["auto", "required", "none"]),
    default="auto",
    show_default=True,
    help="Whether users of the REST API log in, as users of the brokers; auto: if the worker itself logs in.",
)
@click.option(
    "--certificate",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A PEM file with a certificate and its key: the REST API is https.",
)
@click.option(
    "--plugin", "plugins", multiple=True, metavar="MODULE", help="A Python module with connectors; repeat."
)
@click.option(
    "--slots",
    type=click.IntRange(1, 1000),
    default=25,
    show_default=True,
    help="At most so many workers have work; the same for all workers of a group.",
)
@click.option(
    "--replication-factor",
    type=click.IntRange(-1, 32767),
    default=-1,
    show_default=True,
    help="Of the topics of the group; -1: as the broker decides.",
)
@click.option(
    "--session-timeout-ms",
    type=click.IntRange(1_000, 600_000),
    default=10_000,
    show_default=True,
    help="A worker that is silent for so long is dead.",
)
def worker(
    bootstrap: str,
    command_config: Path | None,
    group: str,
    listen: str,
    advertise: str | None,
    authentication: str,
    certificate: Path | None,
    plugins: tuple[str, ...],
    slots: int,
    replication_factor: int,
    session_timeout_ms: int,
) -> None:
    import logging

    from tidelog.app.advertised import HERE
    from tidelog.cli.connection.command_config import read_security
    from tidelog.config.listener import parse_address
    from tidelog.connect.plugins import Plugins
    from tidelog.connect.rest.serving import serve
    from tidelog.connect.state.store import WorkerGroup
    from tidelog.errors import InvalidConfig
    from tidelog.logs import set_up

    set_up("text", {"": logging.INFO}, 0)
    security = None if command_config is None else read_security(command_config)
    sys.path.insert(0, str(Path.cwd()))
    try:
        host, port = parse_address(listen, "--listen")
        classes = Plugins(plugins)
    except InvalidConfig as problem:
        raise click.UsageError(str(problem)) from None
    logs_in = authentication == "required" or (authentication == "auto" and _has_login(security))
    _check_door(listen, host in HERE, authentication, logs_in, security, certificate)
    options = WorkerGroup(bootstrap, group, slots, replication_factor, security, session_timeout_ms)
    try:
        run(
            serve(
                options,
                classes,
                host,
                port,
                advertise,
                logs_in,
                certificate,
                lambda address: click.echo(f"ready rest={address} group={group}"),
            )
        )
    except OSError as problem:
        raise Failure(problem.strerror or str(problem)) from None


def _has_login(security: Security | None) -> bool:
    return security is not None and security.mechanism is not None


def _check_door(
    listen: str,
    is_here: bool,
    authentication: str,
    logs_in: bool,
    security: Security | None,
    certificate: Path | None,
) -> None:
    """A user who changes a connector can read the files and reach the databases of the worker."""
    if logs_in and not _has_login(security):
        raise click.UsageError(
            "--authentication required: users log in as users of the brokers, and --command-config names no log-in to "
            "the brokers (sasl.mechanism)"
        )
    if is_here:
        return
    if not logs_in and authentication != "none":
        raise click.UsageError(
            f"whoever reaches {listen} could read and change connectors: give --command-config with a log-in to the "
            "brokers, whose users then log in here, or say --authentication none behind a proxy that asks for a log-in"
        )
    if not logs_in:
        what = "has no log-in: whoever reaches it can read and change connectors"
    elif certificate is None:
        what = "is not encrypted: passwords can be read on the way (--certificate)"
    else:
        return
    click.echo(f"WARNING: the REST API at {listen} {what}.  Keep it in a network of its own.", err=True)


@connect.command(
    help=command_help(
        "List the connectors that the workers have.",
        "tidelog connect plugins",
        '[{"class", "type", "version"}]',
    )
)
@worker_options
def plugins(session: WorkerSession) -> None:
    rows = session.ask("GET", "/connector-plugins")
    if session.json:
        print_json(rows)
        return
    print_table(("CLASS", "TYPE"), [(row["class"].split(".")[-1], row["type"]) for row in rows])


@connect.command(
    help=command_help(
        "Create a connector, or give one new settings with --replace.  The settings are a file, as JSON or properties, or "
        "arguments.  Refer to secrets: ${env:NAME}, ${file:PATH:KEY}.",
        """
tidelog connect create lines connector.class=FileSource file=/var/log/syslog topic=syslog
tidelog connect create shop --file shop.json
tidelog connect create shop --file shop.json --replace
""",
        '{"name", "type", "tasks": [{"connector", "task"}], "config": {NAME: VALUE}}',
    )
)
@_name
@click.argument("settings", nargs=-1, callback=pairs, metavar="[KEY=VALUE]...")
@click.option("--file", type=click.Path(path_type=Path), help="A file with settings; arguments come on top.")
@click.option("--replace", is_flag=True, help="Change a connector that exists.")
@worker_options
def create(
    session: WorkerSession, name: str, settings: dict[str, str], file: Path | None, replace: bool
) -> None:
    given = {**(_settings_of(file) if file else {}), **settings}
    given.pop("name", None)
    if replace:
        answer = session.ask("PUT", _path(name, "/config"), given)
    else:
        answer = session.ask("POST", "/connectors", {"name": name, "config": given})
    if session.json:
        print_json(answer)
    else:
        click.echo(f"{name} is created: tidelog connect describe {name}")


def _settings_of(file: Path) -> dict[str, str]:
    from tidelog.config.properties import parse_properties
    from tidelog.errors import InvalidConfig

    try:
        text = file.read_text(encoding="utf-8")
    except OSError as problem:
        raise Failure(f"cannot read {file}: {(problem.strerror or str(problem)).lower()}") from None
    except UnicodeDecodeError:
        raise Failure(f"cannot read {file}: it is not UTF-8 text") from None
    try:
        if not text.lstrip().startswith("{"):
            return parse_properties(text)
        given = json.loads(text)
    except (ValueError, InvalidConfig) as problem:
        raise Failure(f"{file}: {problem}") from None
    return dict(given["config"]) if isinstance(given.get("config"), dict) else dict(given)


@connect.command(
    "list",
    help=command_help(
        "List the connectors, with their state.",
        "tidelog connect list",
        '{NAME: {"status": {"name", "type", "connector": {"state", "worker_id"}, "tasks": [{"id", "state", "worker_id"}]}}}',
    ),
)
@worker_options
def list_(session: WorkerSession) -> None:
    connectors = session.ask("GET", "/connectors?expand=status")
    if session.json:
        print_json(connectors)
        return
    rows = []
    for name, shown in connectors.items():
        status = shown["status"]
        states = [task["state"] for task in status["tasks"]]
        counts = ", ".join(f"{states.count(state)} {state.lower()}" for state in dict.fromkeys(states))
        rows.append((name, status["type"], status["connector"]["state"], counts or "none"))
    print_table(("NAME", "TYPE", "STATE", "TASKS"), rows)


@connect.command(
    help=command_help(
        "Show the settings of a connector, and the state of its tasks with their errors.",
        "tidelog connect describe lines",
        '{"name", "type", "config", "connector": {"state", "worker_id", "trace"}, "tasks": [{"id", "state", "worker_id", '
        '"trace"}], "offsets": [{"partition", "offset"}]}',
    )
)
@_name
@worker_options
def describe(session: WorkerSession, name: str) -> None:
    status = session.ask("GET", _path(name, "/status"))
    settings = session.ask("GET", _path(name, "/config"))
    offsets = session.ask("GET", _path(name, "/offsets"))["offsets"]
    if session.json:
        print_json({**status, "config": settings, "offsets": offsets})
        return
    connector = status["connector"]
    click.echo(f"{name} ({status['type']}): {connector['state']} on {connector['worker_id'] or 'no worker'}")
    for task in status["tasks"]:
        click.echo(f"task {task['id']}: {task['state']} on {task['worker_id'] or 'no worker'}")
    for trace in [part["trace"] for part in (connector, *status["tasks"]) if part.get("trace")]:
        click.echo(f"error: {trace.strip()}")
    for offset in offsets:
        click.echo(f"offset of {json.dumps(offset['partition'])}: {json.dumps(offset['offset'])}")
    for key in sorted(settings):
        click.echo(f"{key}={settings[key]}")


@connect.command(
    help=command_help(
        "Pause a connector: its tasks stop until it is resumed.", "tidelog connect pause lines", "{}"
    )
)
@_name
@worker_options
def pause(session: WorkerSession, name: str) -> None:
    _told(session, "PUT", _path(name, "/pause"), f"{name} is paused")


@connect.command(
    help=command_help("Resume a connector that is paused or stopped.", "tidelog connect resume lines", "{}")
)
@_name
@worker_options
def resume(session: WorkerSession, name: str) -> None:
    _told(session, "PUT", _path(name, "/resume"), f"{name} runs again")


@connect.command(
    help=command_help(
        "Stop a connector, so that its offsets can be changed.", "tidelog connect stop lines", "{}"
    )
)
@_name
@worker_options
def stop(session: WorkerSession, name: str) -> None:
    _told(session, "PUT", _path(name, "/stop"), f"{name} is stopped")


@connect.command(
    help=command_help(
        "Restart a connector and its tasks, also those that failed.",
        "tidelog connect restart lines\ntidelog connect restart lines --failed",
        "{}",
    )
)
@_name
@click.option("--failed", is_flag=True, help="Only tasks that failed.")
@worker_options
def restart(session: WorkerSession, name: str, failed: bool) -> None:
    only = "&onlyFailed=true" * failed
    _told(session, "POST", _path(name, f"/restart?includeTasks=true{only}"), f"{name} is restarted")


@connect.command(
    help=command_help(
        "Print the last lines that a connector has logged, on all workers.",
        "tidelog connect logs lines",
        '{"lines": [TEXT]}',
    )
)
@_name
@worker_options
def logs(session: WorkerSession, name: str) -> None:
    answer = session.ask("GET", _path(name, "/logs"))
    if session.json:
        print_json(answer)
    else:
        click.echo("\n".join(answer["lines"]))


@connect.command(
    help=command_help(
        "Delete a connector.  Its topics and the offsets of a source are kept: created anew, it goes on.",
        "tidelog connect delete lines",
        "{}",
    )
)
@_name
@worker_options
def delete(session: WorkerSession, name: str) -> None:
    _told(session, "DELETE", _path(name), f"{name} is deleted")


def _told(session: WorkerSession, method: str, path: str, text: str) -> None:
    answer = session.ask(method, path)
    if session.json:
        print_json({} if answer is None else answer)
    else:
        click.echo(text)
