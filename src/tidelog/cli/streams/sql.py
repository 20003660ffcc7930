"""`tidelog sql`: a shell for SQL on topics, with history and completion, and `-e` and `-f` for scripts."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidelog.cli.interruptible import Interruptible
from tidelog.cli.output import hush_stdout, print_json, print_table
from tidelog.cli.session import CommandSession, Failure, broker_options, command_help, pairs

if TYPE_CHECKING:
    from tidelog.pipeline.sql.engine import Engine, Result, Rows
    from tidelog.pipeline.sql.warm.engine import WarmEngine

    SqlEngine = Engine | WarmEngine

WORDS = [
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP",
    "BY",
    "HAVING",
    "ORDER",
    "LIMIT",
    "JOIN",
    "LEFT",
    "ON",
    "AS",
    "WITH",
    "CREATE",
    "STREAM",
    "TABLE",
    "INSERT",
    "INTO",
    "VALUES",
    "EMIT",
    "CHANGES",
    "FINAL",
    "SHOW",
    "TOPICS",
    "STREAMS",
    "TABLES",
    "QUERIES",
    "DESCRIBE",
    "TERMINATE",
    "ALL",
    "DROP",
    "DELETE",
    "TOPIC",
    "EXPLAIN",
    "SET",
    "PRIMARY",
    "KEY",
    "TIMESTAMP",
    "VERSION",
    "OF",
    "BETWEEN",
    "AND",
    "OR",
    "NOT",
    "COUNT",
    "SUM",
    "AVG",
    "MIN",
    "MAX",
    "WINDOW",
    "SESSION_WINDOW",
    "INTERVAL",
]
WIDTH_MIN = 12
TOPICS_EVERY_S = 5.0


@click.command(
    help=command_help(
        "Run SQL on topics.  Without -e or -f, start a shell: statements end with ;, Ctrl-C stops a query, Ctrl-D exits.  "
        "SELECT reads the existing records; with EMIT CHANGES, also new ones.  CREATE STREAM|TABLE ... AS SELECT writes "
        "to a topic as long as the shell runs; `tidelog pipeline run FILE.sql` runs such statements without a shell.",
        """
tidelog sql
tidelog sql -e "SELECT key, value, _offset FROM orders WHERE _partition = 0 LIMIT 10"
tidelog sql -e "SELECT * FROM orders FOR TIMESTAMP AS OF '2026-01-31T12:00:00Z'"
tidelog sql -f report.sql --json
""",
        'one object for each row; statements without rows print {"said"}',
    )
)
@click.option("-e", "--execute", "text", metavar="SQL", help="Run these statements and exit.")
@click.option("-f", "--file", type=click.Path(dir_okay=False), help="Run the statements of a file and exit.")
@click.option(
    "--until-done",
    is_flag=True,
    help="End continuous queries when they have processed all records that exist now.",
)
@click.option("--master", metavar="MASTER", help="Any Spark master; local[*] by default.")
@click.option(
    "--conf",
    "settings",
    multiple=True,
    callback=pairs,
    metavar="KEY=VALUE",
    help="A setting of Spark; repeat.",
)
@click.option(
    "--keep-warm",
    "warm_minutes",
    type=click.FloatRange(0, 24 * 60),
    default=10,
    show_default=True,
    metavar="MINUTES",
    help="How long Spark stays without work in a process of its own, for the next command; 0: Spark runs in this command.  "
    "--master and --conf also run it here.",
)
@click.option(
    "--stop-warm", is_flag=True, help="End the Spark that earlier commands keep, with its queries, and exit."
)
@click.option(
    "--home",
    envvar="TIDELOG_PIPELINES",
    type=click.Path(file_okay=False),
    show_envvar=True,
    help="Where streams, tables and history are kept; ~/.local/state/tidelog/pipelines by default.",
)
@broker_options
def sql(
    session: CommandSession,
    text: str | None,
    file: str | None,
    until_done: bool,
    master: str | None,
    settings: dict[str, str],
    home: str | None,
    warm_minutes: float,
    stop_warm: bool,
) -> None:
    from tidelog.errors import TidelogError
    from tidelog.pipeline.needs import need_spark
    from tidelog.pipeline.running.loading import sql_text

    if text is not None and file is not None:
        raise click.UsageError("Use either -e or -f, not both.")
    script = ""
    try:
        if file is not None:
            script = sql_text(Path(file))
        need_spark("sqlglot")
        if stop_warm:
            from tidelog.pipeline.sql.warm.client import stop_servers

            click.echo(f"stopped: {stop_servers()}")
            return
        engine = _engine(
            session, Path(home) if home else None, master, settings, until_done, warm_minutes * 60
        )
    except TidelogError as problem:
        raise Failure(str(problem)) from None
    except OSError as problem:
        raise Failure(f"cannot read {file}: {problem.strerror}") from None
    spark = Interruptible(engine.cancel)
    try:
        if text is not None:
            spark.run(lambda: _script(engine, text, "", session.json))
        elif file is not None:
            spark.run(lambda: _script(engine, script, file, session.json))
        elif sys.stdin.isatty():
            _shell(engine, spark, session.json, Path(home) if home else None)
        else:
            script = sys.stdin.read()
            spark.run(lambda: _script(engine, script, "", session.json))
        sys.stdout.flush()
    except KeyboardInterrupt:
        pass
    except BrokenPipeError:  # `tidelog sql ... | head`: the reader has what it wanted
        hush_stdout()
    finally:
        engine.stop()


def _engine(
    session: CommandSession,
    home: Path | None,
    master: str | None,
    settings: dict[str, str],
    until_done: bool,
    warm_s: float,
) -> SqlEngine:
    from tidelog.pipeline.options.connection import absolute_paths, security_options
    from tidelog.pipeline.running.apps import default_home
    from tidelog.pipeline.sql.catalog import Catalog
    from tidelog.pipeline.sql.engine import Engine
    from tidelog.pipeline.sql.warm.client import WarmSpark
    from tidelog.pipeline.sql.warm.engine import WarmEngine
    from tidelog.pipeline.streams.pipeline import Pipeline

    folder = home or default_home()
    pipeline = Pipeline(
        "sql",
        bootstrap=session.bootstrap,
        checkpoint=str(folder.absolute() / "sql"),
        master=master,
        settings=settings,
        options=absolute_paths(security_options(session.security)),
    )
    catalog = folder.absolute() / "catalog.json"
    if master is not None or settings:
        # Whoever chooses a master or settings wants this Spark to run every query.
        return Engine(pipeline, catalog=Catalog(catalog), until_done=until_done)
    local = Engine(pipeline, catalog=Catalog(catalog), until_done=until_done, direct=True)
    if warm_s == 0:
        return local
    opening = {
        "bootstrap": pipeline.bootstrap,
        "checkpoint": pipeline.checkpoint,
        "catalog": str(catalog),
        "until_done": until_done,
        "options": pipeline.options,
    }
    return WarmEngine(local, lambda: WarmSpark.connect(opening, warm_s))


def _script(engine: SqlEngine, text: str, where: str, as_json: bool) -> None:
    """Statement by statement, then until the continuous queries that it started have ended."""
    with _clear_errors(where):
        for result in engine.results(text):
            _print(result, as_json)
        engine.wait()


@contextlib.contextmanager
def _clear_errors(where: str = "") -> Iterator[None]:
    from pyspark.errors import PySparkException

    from tidelog.errors import TidelogError
    from tidelog.pipeline.running.runner import reason_of

    try:
        yield
    except (TidelogError, PySparkException) as problem:
        reason = str(problem) if isinstance(problem, TidelogError) else reason_of(problem)
        raise Failure(f"{where}: {reason}" if where else reason) from None


def _print(result: Result, as_json: bool) -> None:
    from tidelog.pipeline.sql.engine import Notice

    if isinstance(result, Notice):
        if as_json:
            print_json({"said": result.text})
        else:
            click.echo(result.text)
        return
    if as_json:
        from tidelog.pipeline.sql.warm.messages import plain

        for row in result.rows:
            print_json(dict(zip(result.columns, (plain(cell) for cell in row), strict=True)))
            sys.stdout.flush()
    elif result.live:
        _print_live(result)
    else:
        rows = [[_text(cell) for cell in row] for row in result.rows]
        print_table([name.upper() for name in result.columns], rows)
        click.echo(f"({len(rows)} row{'' if len(rows) == 1 else 's'})", err=True)


def _print_live(result: Rows) -> None:
    """Line by line: widths are those of the first rows, nobody waits for the last."""
    widths = [max(WIDTH_MIN, len(name)) for name in result.columns]
    header = "  ".join(name.upper().ljust(width) for name, width in zip(result.columns, widths, strict=True))
    click.echo(header.rstrip())
    for row in result.rows:
        cells = [_text(cell) or "-" for cell in row]
        widths = [max(width, len(cell)) for width, cell in zip(widths, cells, strict=True)]
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip())


def _text(cell: Any) -> str | None:
    if cell is None:
        return None
    from tidelog.pipeline.sql.warm.messages import plain

    value = plain(cell)
    if isinstance(value, dict | list):
        import json

        return json.dumps(value, ensure_ascii=False)
    return str(value)


class Topics:
    """Names for completion: asked of the broker now and then, not with every key."""

    def __init__(self, engine: SqlEngine) -> None:
        self._engine = engine
        self._names: list[str] = []
        self._until = 0.0

    def known(self) -> list[str]:
        from tidelog.errors import TidelogError

        if time.monotonic() >= self._until:
            try:
                self._names = self._engine.topics()
            except TidelogError:
                pass  # The broker is away: what was known completes as well.
            self._until = time.monotonic() + TOPICS_EVERY_S
        return self._names


def _shell(engine: SqlEngine, spark: Interruptible, as_json: bool, home: Path | None) -> None:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import WordCompleter
    from prompt_toolkit.history import FileHistory

    from tidelog.pipeline.running.apps import default_home
    from tidelog.pipeline.sql.statements import is_complete

    folder = home or default_home()
    os.makedirs(folder, exist_ok=True)

    topics = Topics(engine)

    def carry_out(text: str) -> None:
        with _clear_errors():
            for result in engine.results(text):
                _print(result, as_json)

    def words() -> list[str]:
        return [*WORDS, *(entry.name for entry in engine.catalog), *topics.known()]

    completer = WordCompleter(words, ignore_case=True)
    prompt: PromptSession[str] = PromptSession(
        history=FileHistory(str(folder / "history")), completer=completer, complete_in_thread=True
    )
    click.echo("Statements end with ;  SHOW TOPICS; lists the topics.  Ctrl-D exits.", err=True)
    text = ""
    while True:
        try:
            text += prompt.prompt("sql> " if not text else "  -> ") + "\n"
        except KeyboardInterrupt:
            text = ""
            continue
        except EOFError:
            return
        if text.strip().lower() in ("exit", "quit", "exit;", "quit;"):
            return
        if not text.strip() or not is_complete(text):
            continue
        try:
            spark.run(partial(carry_out, text))
        except Failure as problem:
            problem.show()
        except KeyboardInterrupt:
            click.echo("stopped", err=True)
        text = ""
