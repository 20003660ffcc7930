"""The folder of each application: what it runs (`app.json`), its status (`status.json`), its checkpoints and log.

A running application holds the lock of its folder; the lock ends with the process, however the process ends.  Files are
replaced as a whole, so that readers never see half a file."""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from tidelog.pipeline.options.text import PipelineError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


def default_home() -> Path:
    given = os.environ.get("TIDELOG_PIPELINES")
    if given:
        return Path(given)
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return Path(state) / "tidelog" / "pipelines"


@dataclass(frozen=True)
class App:
    """The arguments of `tidelog pipeline run`; enough to start the application again."""

    name: str
    source: str  # a file or folder, absolute
    bootstrap: str
    master: str | None = None
    settings: dict[str, str] = field(default_factory=dict)
    metrics: str | None = None
    until_done: bool = False
    submitted: tuple[str, ...] | None = None  # the arguments for spark-submit; None: without spark-submit
    pid: int = 0
    started_ms: int = 0

    @classmethod
    def of_json(cls, stored: dict[str, Any]) -> App:
        """Reads stored arguments; fields that no longer exist are left out."""
        given = {name: value for name, value in stored.items() if name in cls.__dataclass_fields__}
        if given.get("submitted") is not None:
            given["submitted"] = tuple(given["submitted"])
        return cls(**given)


class AppFolder:
    def __init__(self, home: Path, name: str) -> None:
        if not NAME.fullmatch(name):
            raise PipelineError(
                f"a pipeline's name consists of letters, digits, '.', '_' and '-', not {name!r}"
            )
        self.name = name
        self.path = home / name
        self._lock: IO[str] | None = None

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def log(self) -> Path:
        return self.path / "log"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.prom"

    def take(self) -> None:
        """Takes the lock until this process ends; raises an error if another process has it."""
        self.path.mkdir(parents=True, exist_ok=True)
        lock = (self.path / "lock").open("a")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise PipelineError(
                f"pipeline {self.name!r} is already running: tidelog pipeline stop {self.name}, or give this one --name"
            ) from None
        self._lock = lock

    @property
    def running(self) -> bool:
        path = self.path / "lock"
        if self._lock is not None:
            return True
        if not path.exists():
            return False
        with path.open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def write_app(self, app: App) -> None:
        self._write("app.json", asdict(app))

    def read_app(self) -> App:
        stored = self._read("app.json")
        if stored is None:
            raise PipelineError(f"there is no pipeline {self.name!r} in {self.path.parent}")
        return App.of_json(stored)

    def write_status(self, status: dict[str, Any]) -> None:
        self._write("status.json", status)

    def read_status(self) -> dict[str, Any]:
        return self._read("status.json") or {}

    def write_metrics(self, text: str) -> None:
        self._replace("metrics.prom", text)

    def _write(self, name: str, value: Any) -> None:
        self._replace(name, json.dumps(value, indent=1) + "\n")

    def _replace(self, name: str, text: str) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        new = self.path / f".{name}.new"
        new.write_text(text, encoding="utf-8")
        os.replace(new, self.path / name)

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            stored = json.loads((self.path / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except ValueError as problem:
            raise PipelineError(f"{self.path / name} is damaged ({problem}): remove it") from None
        assert isinstance(stored, dict)
        return stored


def all_apps(home: Path) -> Iterator[AppFolder]:
    if home.is_dir():
        for path in sorted(home.iterdir()):
            if (path / "app.json").exists():
                yield AppFolder(home, path.name)
