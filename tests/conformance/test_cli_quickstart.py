"""`tidelog quickstart`, as a newcomer runs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.conformance.conftest import ON_KAFKA
from tests.conformance.process import wait_until
from tests.conformance.pseudo_terminal import PseudoTerminal
from tests.unit.cli.commands import TIDELOG

pytestmark = pytest.mark.skipif(ON_KAFKA, reason="it starts a broker of its own")


@pytest.fixture
def left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files, where nothing may stay."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def brokers_of(folder: Path) -> list[str]:
    """Command lines of the processes that have their data there."""
    lines = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if str(folder) in line:
            lines.append(line)
    return lines


def test_it_shows_everything_and_leaves_nothing(left: Path) -> None:
    shown = subprocess.run([TIDELOG, "quickstart"], capture_output=True, text=True, timeout=120)
    assert shown.returncode == 0, shown.stderr
    assert shown.stderr == ""
    for line in ("created greetings: 1 partition", "3 records written to greetings", "hello\nbonjour\nhola"):
        assert line in shown.stdout
    assert "The console is at http://127.0.0.1:" in shown.stdout
    assert list(left.iterdir()) == [] and not brokers_of(left)

    shown = subprocess.run([TIDELOG, "quickstart", "--json"], capture_output=True, text=True, timeout=120)
    told = json.loads(shown.stdout)
    assert [record["value"] for record in told["records"]] == ["hello", "bonjour", "hola"]
    assert set(told) == {"kafka", "http", "topic", "records"}


@pytest.mark.parametrize("ending", ["enter", "SIGINT", "SIGTERM"])
def test_on_a_terminal_it_stays_until_it_is_ended(left: Path, ending: str) -> None:
    with PseudoTerminal([TIDELOG, "quickstart"], columns=120) as terminal:
        terminal.until_output(lambda text: "Press Enter to stop" in text, "it waits")
        assert len(brokers_of(left)) == 1
        if ending == "enter":
            terminal.press("\r")
        else:
            os.kill(terminal.process.pid, getattr(signal, ending))
        terminal.until_output(lambda text: "its data are removed" in text, "it says goodbye")
        wait_until(lambda: not brokers_of(left) and not list(left.iterdir()), 60, "nothing is left")
