"""`tidelog pipeline`: run, list, status, stop, restart, submit."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tidelog.cli.output import bytes_text, print_json, print_table, time_text
from tidelog.cli.session import BOOTSTRAP, Failure, Finite, command_help, pairs

if TYPE_CHECKING:
    from tidelog.pipeline.running.apps import App, AppFolder

F = TypeVar("F", bound=Callable[..., Any])

PORT_MAX = 65_535
STATUS_SHAPE = """
{"name", "state", "pid", "source", "bootstrap", "master", "started_ms", "folder", "error",
 "queries": {NAME: {"state", "batch", "batches", "records", "records_per_s", "processed_per_s", "batch_ms",
                    "lag", "state_rows", "state_bytes", "late_rows", "watermark", "updated_ms", "error",
                    "positions": {TOPIC: {PARTITION: OFFSET}}}}}
"""


@click.group(help="Run pipelines on Spark, and show their progress.")
def pipeline() -> None:
    pass


def home_option(command: F) -> F:
    return click.option(
        "--home",
        envvar="TIDELOG_PIPELINES",
        type=click.Path(file_okay=False),
        show_envvar=True,
        help="The folder with the state of all pipelines; ~/.local/state/tidelog/pipelines by default.",
    )(command)


def json_option(command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")(command)


def run_options(command: F) -> F:
    for option in (
        click.option("--metrics", metavar="HOST:PORT", callback=_check_metrics, help="Serve /metrics there."),
        click.option("--until-done", is_flag=True, help="End when all records that exist now are processed."),
        click.option(
            "--conf",
            "settings",
            multiple=True,
            callback=pairs,
            metavar="KEY=VALUE",
            help="A setting of Spark; repeat.",
        ),
        click.option(
            "--bootstrap",
            envvar="TIDELOG_BOOTSTRAP",
            default=BOOTSTRAP,
            show_default=True,
            show_envvar=True,
            metavar="HOST:PORT[,...]",
            help="A broker to start from, where the pipeline names none.",
        ),
        click.option("--name", metavar="NAME", help="The pipeline's name; that of the file by default."),
    ):
        command = option(command)
    return home_option(command)


def _check_metrics(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    port = None if value is None else value.rpartition(":")[2]
    if port is not None and not (port.isdecimal() and port.isascii() and int(port) <= PORT_MAX):
        raise click.BadParameter(f"{value!r} is not of the form HOST:PORT, with a port up to {PORT_MAX}")
    return value


def with_clear_errors(command: F) -> F:
    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        from tidelog.errors import TidelogError

        try:
            return command(*args, **kwargs)
        except TidelogError as problem:
            raise Failure(str(problem)) from None

    return wrapped  # type: ignore[return-value]


@pipeline.command(
    help=command_help(
        "Run the pipelines of a Python file, an SQL file or a folder of both, until the command is stopped.  State and "
        "checkpoints are kept, so that the next run continues where this run ended, also after a crash.",
        """
tidelog pipeline run clicks.py
tidelog pipeline run totals.sql --until-done
tidelog pipeline run shop/ --name shop --master 'local[4]' --metrics 127.0.0.1:9404
tidelog pipeline run clicks.py --detach
""",
    )
)
@click.argument("source", metavar="FILE.py|FILE.sql|FOLDER")
@click.option("--master", metavar="MASTER", help="Any Spark master; local[*] by default.")
@click.option("--detach", is_flag=True, help="Run it in the background.")
@run_options
@with_clear_errors
def run(
    source: str,
    master: str | None,
    detach: bool,
    home: str | None,
    name: str | None,
    bootstrap: str,
    settings: dict[str, str],
    until_done: bool,
    metrics: str | None,
) -> None:
    from tidelog.pipeline.needs import need_spark

    need_spark()
    app = _app(source, name, bootstrap, master, settings, metrics, until_done)
    folder = _folder(home, app.name)
    if detach:
        _spawn(folder, app)
        click.echo(f"{app.name} runs: tidelog pipeline status {app.name}")
        return
    from tidelog.pipeline.running.runner import PipelineRunner, reason_of

    try:
        well = PipelineRunner(folder, app, lambda text: click.echo(text, err=True)).run()
    except Exception as problem:
        raise Failure(f"{app.name}: {reason_of(problem)}") from None
    if not well:
        raise Failure(f"{app.name}: {folder.read_status().get('error')}")


def _app(
    source: str,
    name: str | None,
    bootstrap: str,
    master: str | None,
    settings: dict[str, str],
    metrics: str | None,
    until_done: bool,
    submitted: tuple[str, ...] | None = None,
) -> App:
    from tidelog.pipeline.running.apps import App
    from tidelog.pipeline.running.loading import files_of

    path = Path(source).resolve()
    files_of(path)
    chosen = name or path.stem.replace(" ", "-")
    started_ms = time.time_ns() // 1_000_000
    return App(
        chosen,
        str(path),
        bootstrap,
        master,
        settings,
        metrics,
        until_done,
        submitted,
        os.getpid(),
        started_ms,
    )


def _folder(home: str | None, name: str) -> AppFolder:
    from tidelog.pipeline.running.apps import AppFolder, default_home

    return AppFolder(Path(home) if home else default_home(), name)


def _command(folder: AppFolder, app: App) -> tuple[list[str], dict[str, str]]:
    """What runs the app as it was asked for, and what its environment needs."""
    if app.submitted is not None:
        from tidelog.pipeline.running.submission import submission

        return submission(app, str(folder.path.parent))
    words = ["pipeline", "run", app.source, "--name", app.name, "--bootstrap", app.bootstrap]
    words += ["--home", str(folder.path.parent)]
    words += ["--master", app.master] if app.master else []
    words += ["--metrics", app.metrics] if app.metrics else []
    words += [word for key, value in app.settings.items() for word in ("--conf", f"{key}={value}")]
    words += ["--until-done"] if app.until_done else []
    return [sys.executable, "-c", "from tidelog.cli import main; main()", *words], {}


def _spawn(folder: AppFolder, app: App) -> None:
    """A process of its own, in a session of its own; returns when its queries run."""
    if folder.running:
        raise Failure(f"pipeline {app.name!r} is already running: use tidelog pipeline stop {app.name}")
    command, environment = _command(folder, app)
    folder.path.mkdir(parents=True, exist_ok=True)
    folder.write_status({"state": "starting"})
    with folder.log.open("ab") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **environment},
            start_new_session=True,
        )
    while folder.read_status().get("state") == "starting":
        if process.poll() is not None:
            break
        time.sleep(0.1)
    status = folder.read_status()
    if status.get("state") == "failed" or (process.poll() or 0) != 0:
        said = status.get("error") or "it ended before it had begun"
        raise Failure(f"{app.name}: {said}; its log is {folder.log}")


def shown(folder: AppFolder) -> dict[str, Any]:
    app, status = folder.read_app(), folder.read_status()
    state = status.get("state", "unknown")
    if not folder.running and state in ("starting", "running"):
        state = "killed"
    return {
        "name": app.name,
        "state": state,
        "pid": app.pid if folder.running else None,
        "source": app.source,
        "bootstrap": app.bootstrap,
        "master": app.master or "local[*]",
        "started_ms": app.started_ms,
        "folder": str(folder.path),
        "error": status.get("error"),
        "queries": status.get("queries", {}),
    }


@pipeline.command(
    "list",
    help=command_help(
        "List the pipelines that ran here, and their states.",
        "tidelog pipeline list\n",
        f"[{STATUS_SHAPE.strip()}]",
    ),
)
@home_option
@json_option
@with_clear_errors
def list_(home: str | None, as_json: bool) -> None:
    from tidelog.pipeline.running.apps import all_apps, default_home

    found = [shown(one) for one in all_apps(Path(home) if home else default_home())]
    if as_json:
        print_json(found)
        return
    rows = [
        (
            one["name"],
            one["state"],
            one["pid"],
            len(one["queries"]),
            round(sum(query["records_per_s"] for query in one["queries"].values()), 1),
            sum(query["lag"] or 0 for query in one["queries"].values()),
            time_text(one["started_ms"]),
        )
        for one in found
    ]
    columns = ("PIPELINE", "STATE", "PID", "OUTPUTS", "RECORDS/S", "LAG", "STARTED")
    print_table(columns, rows, right=("PID", "OUTPUTS", "RECORDS/S", "LAG"))


@pipeline.command(
    help=command_help(
        "Show the progress of a pipeline: records per second, lag, micro-batch time and state size.",
        """
tidelog pipeline status clicks
tidelog pipeline status clicks --watch
""",
        STATUS_SHAPE,
    )
)
@click.argument("name")
@click.option("--watch", is_flag=True, help="Repeat every second, until Ctrl-C.")
@home_option
@json_option
@with_clear_errors
def status(name: str, watch: bool, home: str | None, as_json: bool) -> None:
    folder = _folder(home, name)
    while True:
        one = shown(folder)
        if as_json:
            print_json(one)
        else:
            _print_status(one)
        if not watch:
            return
        time.sleep(1)
        click.clear()


def _print_status(one: dict[str, Any]) -> None:
    click.echo(
        f"{one['name']}: {one['state']}, {one['source']} on {one['master']}, broker {one['bootstrap']}"
    )
    if one["error"]:
        click.echo(f"error: {one['error']}")
    rows = [
        (
            name,
            query["state"],
            query["batch"],
            query["records"],
            round(query["records_per_s"], 1),
            query["lag"],
            query["batch_ms"],
            query["state_rows"],
            bytes_text(query["state_bytes"]),
            query["watermark"],
        )
        for name, query in one["queries"].items()
    ]
    columns = ["OUTPUT", "STATE", "BATCH", "RECORDS", "RECORDS/S", "LAG", "BATCH-MS"]
    columns += ["STATE-ROWS", "STATE-SIZE", "WATERMARK"]
    print_table(columns, rows, right=columns[2:9])


@pipeline.command(
    help=command_help(
        "Stop a pipeline.  Nothing is lost: the next run continues from its checkpoints.",
        """
tidelog pipeline stop clicks
tidelog pipeline stop clicks --kill
""",
        '{"stopped": NAME, "killed"}',
    )
)
@click.argument("name")
@click.option("--kill", is_flag=True, help="Kill the process (SIGKILL) instead of stopping it.")
@click.option("--seconds", type=Finite(min=0), default=60.0, show_default=True, help="How long to wait.")
@home_option
@json_option
@with_clear_errors
def stop(name: str, kill: bool, seconds: float, home: str | None, as_json: bool) -> None:
    folder = _folder(home, name)
    _stop(folder, kill, seconds)
    if as_json:
        print_json({"stopped": name, "killed": kill})
    else:
        click.echo(f"{name} {'killed' if kill else 'stopped'}")


def _stop(folder: AppFolder, kill: bool, seconds: float) -> None:
    app = folder.read_app()
    if not folder.running:
        raise Failure(f"pipeline {app.name!r} is not running")
    os.kill(app.pid, signal.SIGKILL if kill else signal.SIGTERM)
    deadline = time.monotonic() + seconds
    while folder.running:
        if time.monotonic() >= deadline:
            raise Failure(
                f"pipeline {app.name!r} (process {app.pid}) did not end within {seconds:g} s: use --kill"
            )
        time.sleep(0.1)


@pipeline.command(
    help=command_help(
        "Stop a pipeline if it runs, and start it again in the background as it was started before: with the same "
        "master, settings and options, through spark-submit if it was submitted.  It goes on from its checkpoints.",
        "tidelog pipeline restart clicks\n",
        '{"restarted": NAME}',
    )
)
@click.argument("name")
@click.option("--seconds", type=Finite(min=0), default=60.0, show_default=True, help="How long to wait.")
@home_option
@json_option
@with_clear_errors
def restart(name: str, seconds: float, home: str | None, as_json: bool) -> None:
    folder = _folder(home, name)
    app = folder.read_app()
    if folder.running:
        _stop(folder, False, seconds)
    _spawn(folder, app)
    if as_json:
        print_json({"restarted": name})
    else:
        click.echo(f"{name} runs: tidelog pipeline status {name}")


@pipeline.command(
    help=command_help(
        "Run a pipeline on a Spark cluster, through spark-submit.  Tidelog and what the pipeline imports must be "
        "installed where the executors run.  Words after -- go to spark-submit.",
        """
tidelog pipeline submit clicks.py --master spark://master:7077
tidelog pipeline submit shop/ --name shop --master yarn --dry-run -- --num-executors 4
""",
    )
)
@click.argument("source", metavar="FILE.py|FILE.sql|FOLDER")
@click.argument("words", nargs=-1, metavar="[-- OPTIONS OF SPARK-SUBMIT]")
@click.option("--master", required=True, metavar="MASTER", help="spark://host:port, yarn, k8s://...")
@click.option("--dry-run", is_flag=True, help="Print the command without running it.")
@run_options
@with_clear_errors
def submit(
    source: str,
    words: tuple[str, ...],
    master: str,
    dry_run: bool,
    home: str | None,
    name: str | None,
    bootstrap: str,
    settings: dict[str, str],
    until_done: bool,
    metrics: str | None,
) -> None:
    import shlex

    from tidelog.pipeline.needs import need_spark
    from tidelog.pipeline.running.submission import submission

    need_spark()
    app = _app(source, name, bootstrap, master, settings, metrics, until_done, words)
    command, environment = submission(app, str(_folder(home, app.name).path.parent))
    if dry_run:
        click.echo(shlex.join(command))
        return
    sys.stdout.flush()
    os.execve(command[0], command, {**os.environ, **environment})
