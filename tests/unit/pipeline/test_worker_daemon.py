"""The imports of the process from which Spark forks its Python workers."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from tidelog.pipeline.worker_daemon import BY_WORKER, IN_ALL, print_error

CHECK = """
import sys
from tidelog.pipeline.worker_daemon import warm
warm(sys.argv[1])
print(*[one for one in sys.argv[1:] if one not in sys.modules])
"""


@pytest.mark.parametrize("worker", BY_WORKER)
def test_everything_that_is_named_is_there(worker: str) -> None:
    for module in (worker, *IN_ALL, *BY_WORKER[worker]):
        assert importlib.util.find_spec(module) is not None, module


def test_a_worker_is_forked_with_its_imports_done() -> None:
    wanted = ["pyspark.worker", *IN_ALL, *BY_WORKER["pyspark.worker"]]
    done = subprocess.run([sys.executable, "-c", CHECK, *wanted], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_a_module_that_is_not_a_worker_of_sparks_is_left_alone() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHECK, "json.tool"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "json.tool"


def test_planning_loads_neither_pyarrow_nor_a_client() -> None:
    """Spark starts a process for each step of a plan, and each of them imports everything anew."""
    code = """
import sys, tidelog.pipeline.data_source, tidelog.pipeline.sink.writer
print(*(one for one in ("pyarrow", "numpy", "asyncio", "tidelog.client.producer.producer") if one in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


@pytest.mark.parametrize(
    ("problem", "text"),
    [(BrokenPipeError("gone"), ""), (EOFError(), ""), (ValueError("wrong"), "ValueError: wrong")],
)
def test_a_worker_that_cannot_reach_spark_any_more_ends_without_a_word(
    problem: Exception, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        raise problem
    except Exception:
        print_error()
    printed = capsys.readouterr().err
    assert text in printed and bool(printed) == bool(text)
