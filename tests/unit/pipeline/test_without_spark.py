"""Spark is not imported before it is used; if it is not installed, an error of one line says what to do."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from tidelog.pipeline.needs import need_spark
from tidelog.pipeline.options.text import PipelineError

HIDE = """
import importlib.util, sys
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "pyspark" else found(name, *more)
"""


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    "words", [["--help"], ["pipeline", "--help"], ["sql", "--help"], ["pipeline", "list"]]
)
def test_commands_that_need_no_spark_do_not_import_it(words: list[str]) -> None:
    shown = python(
        f"""
import os, sys, tempfile
os.environ["TIDELOG_PIPELINES"] = tempfile.gettempdir() + "/no such folder"
import tidelog.cli, tidelog, tidelog.pipeline
sys.argv = ["tidelog", *{words!r}]
try:
    tidelog.cli.main()
except SystemExit as ended:
    print("ENDED", ended.code, *sys.modules, file=sys.stderr)
"""
    )
    modules = shown.stderr.split()
    assert modules[:2] == ["ENDED", "0"]
    assert not {"pyspark", "pyarrow", "pandas", "numpy", "sqlglot"} & set(modules)


@pytest.mark.parametrize("words", [["pipeline", "run", __file__], ["sql", "-e", "SHOW TOPICS"]])
def test_without_spark_one_line_says_what_to_do(words: list[str]) -> None:
    shown = python(f"{HIDE}\nimport tidelog.cli\nsys.argv = ['tidelog', *{words!r}]\ntidelog.cli.main()")
    assert shown.returncode == 1
    assert (
        shown.stderr == "Error: pipelines need pyspark, not installed here: pip install 'tidelog[pipeline]'\n"
    )


def test_several_missing_packages_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(PipelineError, match="need pyspark, pyarrow and sqlglot, not installed here"):
        need_spark("sqlglot")


def test_the_library_says_the_same() -> None:
    shown = python(f"{HIDE}\nfrom tidelog.pipeline import Pipeline")
    assert (
        shown.stderr.strip().endswith("pip install 'tidelog[pipeline]'") and "PipelineError" in shown.stderr
    )
