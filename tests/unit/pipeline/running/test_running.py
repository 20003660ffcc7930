"""The state of applications and the progress from Spark's reports, without Spark."""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.unit.cli.commands import invoke
from tidelog.cli.streams.pipeline import _command
from tidelog.pipeline.options.text import PipelineError
from tidelog.pipeline.running.apps import App, AppFolder, all_apps
from tidelog.pipeline.running.checkpoints import positions_of
from tidelog.pipeline.running.loading import files_of, sql_text
from tidelog.pipeline.running.progress import QueryProgress, prometheus
from tidelog.pipeline.running.runner import reason_of
from tidelog.pipeline.streams.durations import duration_ms

REPORT = {
    "name": "shop.totals",
    "batchId": 4,
    "numInputRows": 120,
    "inputRowsPerSecond": 60.0,
    "processedRowsPerSecond": "NaN",
    "durationMs": {"triggerExecution": 250},
    "eventTime": {"watermark": "2026-01-31T12:00:00.000Z"},
    "stateOperators": [{"numRowsTotal": 7, "memoryUsedBytes": 1000, "numRowsDroppedByWatermark": 2}],
    "sources": [
        {"endOffset": '{"orders": {"0": 10, "1": 20}, "@ids": {"orders": "x"}}'},
        {"endOffset": {"orders": {"0": 8}, "other": {"0": 1}}},
        {"endOffset": "17"},
    ],
}


def test_reports_become_figures() -> None:
    query = QueryProgress("totals")
    query.reported(REPORT, now_ms=1000)
    assert (query.batch, query.batches, query.records, query.batch_ms) == (4, 1, 120, 250)
    assert (query.records_per_s, query.processed_per_s) == (60.0, 0.0)
    assert (query.state_rows, query.state_bytes, query.late_rows) == (7, 1000, 2)
    # If two sources read a topic, the one that is behind counts.
    assert query.positions == {"orders": {"0": 8, "1": 20}, "other": {"0": 1}}
    query.ends({("orders", 0): 18, ("orders", 1): 25, ("other", 0): 0})
    assert query.lag == 15
    query.reported({**REPORT, "numInputRows": 0}, now_ms=2000)
    assert (query.batches, query.records) == (1, 120)  # an idle moment is no batch


def test_figures_are_read_by_scrapers() -> None:
    query = QueryProgress('to"tals')
    query.reported(REPORT, now_ms=1)
    families = {
        family.name: family for family in text_string_to_metric_families(prometheus("shop", {"q": query}))
    }
    (sample,) = families["tidelog_pipeline_records"].samples
    assert sample.value == 120 and sample.labels == {"pipeline": "shop", "output": 'to"tals'}
    assert families["tidelog_pipeline_up"].samples[0].value == 1
    assert families["tidelog_pipeline_lag_records"].samples == []  # not known yet


def test_an_app_is_known_by_its_folder(tmp_path: Path) -> None:
    folder = AppFolder(tmp_path, "shop")
    with pytest.raises(PipelineError, match="no pipeline 'shop'"):
        folder.read_app()
    app = App("shop", "/x/shop.py", "127.0.0.1:9092", settings={"a": "b"}, pid=7)
    folder.write_app(app)
    folder.write_status({"state": "running"})
    assert AppFolder(tmp_path, "shop").read_app() == app
    assert [app.name for app in all_apps(tmp_path)] == ["shop"] and not folder.running
    with pytest.raises(PipelineError, match="letters, digits"):
        AppFolder(tmp_path, "../shop")


def test_the_lock_of_an_app_ends_with_its_process(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from tidelog.pipeline.running.apps import AppFolder
folder = AppFolder(Path(sys.argv[1]), "shop")
folder.take()
print("held", flush=True)
sys.stdin.read()
"""
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert child.stdout is not None and child.stdout.readline() == b"held\n"
        assert AppFolder(tmp_path, "shop").running
        with pytest.raises(PipelineError, match="is already running"):
            AppFolder(tmp_path, "shop").take()
    finally:
        child.kill()
        child.communicate()
    assert not AppFolder(tmp_path, "shop").running
    AppFolder(tmp_path, "shop").take()


def test_commands_about_apps(tmp_path: Path) -> None:
    home = ("--home", str(tmp_path))
    folder = AppFolder(tmp_path, "shop")
    folder.write_app(App("shop", "/x/shop.py", "127.0.0.1:9092"))
    query = QueryProgress("totals", lag=3)
    folder.write_status({"state": "running", "queries": {"totals": query.json()}})
    listed = invoke("pipeline", "list", *home)
    assert "shop" in listed.output and "killed" in listed.output  # it says running, and nobody holds its lock
    shown = invoke("pipeline", "status", "shop", *home)
    assert "totals" in shown.output and "STATE-ROWS" in shown.output
    assert "is not running" in invoke("pipeline", "stop", "shop", *home).stderr
    assert "no pipeline 'other'" in invoke("pipeline", "status", "other", *home).stderr
    assert "there is no file" in invoke("pipeline", "run", "nothing.py", *home).stderr


def test_sources_are_files_or_folders(tmp_path: Path) -> None:
    for name in ("b.sql", "a.py", "_c.py", "d.txt"):
        (tmp_path / name).write_text("")
    assert [file.name for file in files_of(tmp_path)] == ["a.py", "b.sql"]
    with pytest.raises(PipelineError, match=r"neither \.py nor \.sql"):
        files_of(tmp_path / "d.txt")


def test_sql_is_utf_8(tmp_path: Path) -> None:
    file = tmp_path / "a.sql"
    file.write_bytes("\ufeffSELECT 'é'".encode())
    assert sql_text(file) == "SELECT 'é'"
    file.write_bytes("SELECT 'é'".encode("latin-1"))
    message = invoke("sql", "-f", str(file)).stderr
    assert "is not UTF-8 (byte 8)" in message and "Traceback" not in message


@pytest.mark.parametrize(
    ("text", "ms"), [("10 minutes", 600_000), ("1 hour 30 min", 5_400_000), ("500 ms", 500)]
)
def test_durations(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


@pytest.mark.parametrize("text", ["10", "minutes", "0 s", "ten minutes", ""])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(PipelineError, match="is not a duration"):
        duration_ms(text)


@pytest.mark.parametrize(
    ("story", "reason"),
    [
        (
            "[STREAM_FAILED] Query terminated\nTraceback (most recent call last):\n  File x\n"
            "tidelog.pipeline.options.text.PipelineError: topic 'orders' is gone\n\tat org.apache.spark...",
            "topic 'orders' is gone",
        ),
        (
            "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n  File x\n"
            "tidelog.errors.MessageTooLarge: the record has 2000000 bytes\n\n",
            "the record has 2000000 bytes",
        ),
        (
            "[STREAM_FAILED] x\nTraceback (most recent call last):\n  File tidelog.client.Batch: x\n"
            "tidelog.errors.First: no\n\nDuring handling, another happened:\n\n"
            "Traceback (most recent call last):\n  File y\ntidelog.errors.Last: yes",
            "yes",
        ),
        (
            "[STREAM_FAILED] x\nTraceback (most recent call last):\n  File y\nshop.NotForSale: a pear\n\tat java",
            "shop.NotForSale: a pear",
        ),
        (
            "x\nTraceback (most recent call last):\n  File y\nZeroDivisionError: division by zero\n\tat java",
            "ZeroDivisionError: division by zero",
        ),
        (
            "[USER_RAISED_EXCEPTION] the record of a/0 at 5 does not fit",
            "the record of a/0 at 5 does not fit",
        ),
        ("one line\nanother", "one line"),
        (
            "An error occurred while calling o9.save.\n: org.apache.spark.NoSource: it failed\n\tat x",
            "it failed",
        ),
    ],
)
def test_the_reason_of_a_long_story_is_one_line(story: str, reason: str) -> None:
    assert reason_of(RuntimeError(story)) == reason


def test_a_restart_asks_for_what_was_asked_for_before(tmp_path: Path) -> None:
    folder = AppFolder(tmp_path, "shop")
    app = App("shop", "/x/shop.py", "h:1", "local[3]", {"a": "b"}, "127.0.0.1:9", until_done=True)
    words = _command(folder, app)[0]
    assert "--until-done" in words and words[words.index("--master") + 1] == "local[3]"
    folder.write_app(replace(app, master="spark://h:7077", submitted=("--num-executors", "4")))
    command = _command(folder, folder.read_app())[0]
    assert command[0].endswith("spark-submit") and "--num-executors" in command
    assert command[command.index("--master") + 1] == "spark://h:7077"
    assert App.of_json(json.loads(command[-1])["app"]) == folder.read_app()


def test_an_app_that_is_submitted_knows_its_master(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("")
    shown = invoke(
        "pipeline", "submit", str(tmp_path / "shop.py"), "--master", "yarn", "--until-done", "--dry-run"
    )
    app = json.loads(shlex.split(shown.output)[-1])["app"]
    assert app["master"] == "yarn" and app["until_done"] and app["submitted"] == []


def test_a_port_for_metrics_that_is_taken_is_told(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        words = ["pipeline", "run", str(tmp_path / "shop.py"), "--home", str(tmp_path), "--metrics", place]
        code = "from tidelog.cli import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", code, *words, "--detach"], capture_output=True, text=True, timeout=120
        )
    message = f"metrics cannot be served on {place}: Address already in use"
    assert done.returncode == 1 and message in done.stderr
    shown = json.loads(invoke("pipeline", "status", "shop", "--home", str(tmp_path), "--json").output)
    assert shown["state"] == "failed" and shown["error"] == message
    refused = invoke("pipeline", "run", str(tmp_path / "shop.py"), "--metrics", "127.0.0.1:99999")
    assert "a port up to 65535" in refused.stderr


def test_a_checkpoint_tells_how_far_a_query_came(tmp_path: Path) -> None:
    assert positions_of(str(tmp_path)) == {}
    for name in ("offsets", "commits"):
        (tmp_path / name).mkdir()
    for batch in (9, 10, 11):
        ours = f'{{"a": {{"0": {batch}}}, "@ids": {{}}}}'
        (tmp_path / "offsets" / str(batch)).write_text(f'v1\n{{}}\n{ours}\n-\n{{"a": {{"0": 50}}}}')
    for batch in ("9", "10", ".11.tmp"):
        (tmp_path / "commits" / batch).write_text("v1\n{}")
    assert positions_of(str(tmp_path)) == {"a": {"0": 10}}  # the eleventh was not done
