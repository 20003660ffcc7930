"""Options of commands that work on backups: where these are, and the keys they are encrypted with."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import click

from tidelog.cli.output import ProgressLine, bytes_text, remaining_text
from tidelog.cli.session import Failure, run

T = TypeVar("T")


def store_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command gets `store`, a URL."""
    return click.option(
        "--store",
        required=True,
        callback=lambda ctx, param, value: store_url(value),
        envvar="TIDELOG_BACKUP_STORE",
        metavar="URL",
        help="Where the backups are: a folder, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX.  "
        "Credentials come from the environment.",
    )(command)


def store_url(text: str) -> str:
    return text if "://" in text else f"file://{os.path.abspath(text)}"


def run_on_store(main: Coroutine[Any, Any, T]) -> T:
    """Runs the command; a store or a key that fails becomes one line on stderr."""
    from tidelog.storage.encryption.key_service import KeyUnavailable
    from tidelog.storage.tiers.object_store import StoreProblem

    try:
        return run(main)
    except* (StoreProblem, KeyUnavailable, OSError) as group:
        raise Failure(*_texts(group)) from None


def _texts(group: BaseExceptionGroup[Any]) -> list[str]:
    texts: list[str] = []
    for problem in group.exceptions:
        texts += _texts(problem) if isinstance(problem, BaseExceptionGroup) else [str(problem)]
    return list(dict.fromkeys(texts))


class BytesProgress:
    """Bytes, their rate and the remaining time."""

    AFTER_SECONDS = 1.0

    def __init__(self, verb: str, now: Callable[[], float]) -> None:
        self._verb = verb
        self._line = ProgressLine()
        self._now = now
        self._began = now()

    @property
    def seconds(self) -> float:
        return self._now() - self._began

    def update(self, size: int, done: int, total: int) -> None:
        """`size`: bytes; `done` of `total`: how far, in whatever unit."""
        if self.seconds >= self.AFTER_SECONDS:
            share = f" ({100 * done // total}%)" if total else ""
            text = f"{bytes_text(size)} {self._verb}{share}, {self.rate(size)}"
            self._line.update(self._now(), text + remaining_text(done, total, self.seconds))

    def rate(self, size: int) -> str:
        return f"{bytes_text(int(size / max(self.seconds, 0.001)))}/s"

    def clear(self) -> None:
        self._line.clear()
