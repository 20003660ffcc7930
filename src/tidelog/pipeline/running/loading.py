"""Loads pipelines from a file or folder: Python files define pipelines, a SQL file becomes one pipeline."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog.pipeline.options.text import PipelineError

if TYPE_CHECKING:
    from tidelog.pipeline.streams.pipeline import Pipeline

KINDS = (".py", ".sql")


def files_of(source: Path) -> list[Path]:
    if source.is_dir():
        files = sorted(
            file for file in source.iterdir() if file.suffix in KINDS and not file.name.startswith(("_", "."))
        )
        if not files:
            raise PipelineError(f"{source} has no .py or .sql files")
        return files
    if not source.exists():
        raise PipelineError(f"there is no file {source}")
    if source.suffix not in KINDS:
        raise PipelineError(f"{source} is neither .py nor .sql")
    return [source]


def load(source: Path, app: str, bootstrap: str) -> list[Pipeline]:
    """The pipelines of all files, not yet started."""
    pipelines: list[Pipeline] = []
    for path in files_of(source):
        pipelines += _python(path) if path.suffix == ".py" else _sql(path, app, bootstrap)
    if not pipelines:
        raise PipelineError(
            f"{source} defines no pipeline: pipeline = Pipeline('name'), and .to(topic) at the end"
        )
    names = [pipeline.name for pipeline in pipelines]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise PipelineError(
            f"{source} defines two pipelines named {twice!r}: their checkpoints would be the same"
        )
    return pipelines


def sql_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as problem:
        raise PipelineError(f"{path} is not UTF-8 (byte {problem.start}): save it as UTF-8") from None


def _python(path: Path) -> list[Pipeline]:
    from pyspark import cloudpickle

    from tidelog.pipeline.streams.pipeline import DEFINED, defined_in_files

    before = len(DEFINED)
    name = f"tidelog_pipeline_{path.stem.replace('-', '_')}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    # The file can import other files of its folder; its own functions are pickled whole for the executors.
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    with defined_in_files():
        spec.loader.exec_module(module)
    return DEFINED[before:]


def _sql(path: Path, app: str, bootstrap: str) -> list[Pipeline]:
    from tidelog.pipeline.sql.engine import Engine
    from tidelog.pipeline.streams.pipeline import Pipeline

    stem = path.stem.replace(" ", "-")
    pipeline = Pipeline(app if app == stem else f"{app}-{stem}", bootstrap=bootstrap)
    engine = Engine(pipeline, starting=False)
    engine.script(sql_text(path), path.name)
    return [pipeline]
