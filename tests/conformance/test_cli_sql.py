"""The shell of `tidelog sql` in a terminal, as far as it goes without Spark."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

WAIT_S = 60


class Terminal:
    def __init__(self, *words: str) -> None:
        self._own, other = pty.openpty()
        command = [sys.executable, "-c", "from tidelog.cli import main; main()", *words]
        environment = {**os.environ, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"}
        self.process = subprocess.Popen(command, stdin=other, stdout=other, stderr=other, env=environment)
        os.close(other)
        self._seen = ""

    def expect(self, text: str) -> None:
        """Waits for a text after what was expected before."""
        deadline = time.monotonic() + WAIT_S
        while text not in self._seen:
            assert time.monotonic() < deadline, f"no {text!r} in {self._seen!r}"
            if select.select([self._own], [], [], 0.2)[0]:
                self._seen += os.read(self._own, 65536).decode(errors="replace")
        self._seen = self._seen.split(text, 1)[1]

    def type(self, text: str) -> None:
        os.write(self._own, text.encode())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._own)


@pytest.fixture
def shell(bootstrap: str, tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal("sql", "--bootstrap", bootstrap, "--home", str(tmp_path))
    yield terminal
    terminal.close()


def test_a_shell_with_history_and_completion(
    shell: Terminal, topic: Callable[..., str], tmp_path: Path
) -> None:
    known = topic(partitions=3)
    shell.expect("sql>")
    shell.type("SHOW\n")
    shell.expect("->")  # the statement is not complete
    shell.type("TOPICS;\n")
    shell.expect(known)
    shell.expect("sql>")
    shell.type("show me;\n")
    shell.expect("Error: line 1, column 6: SHOW TOPICS, STREAMS, TABLES or QUERIES, not 'me'")
    shell.expect("sql>")
    shell.type("TERMI")
    shell.expect("TERMINATE")  # what could be meant
    shell.type("\t")
    shell.expect("TERMINATE")  # Tab takes it
    shell.type(" ALL;\n")
    shell.expect("terminated nothing")
    shell.expect("sql>")
    shell.type("\x1b[A")  # arrow up
    shell.expect("TERMINATE ALL;")
    shell.type("\x03\x04")  # Ctrl-C drops the line, Ctrl-D leaves
    assert shell.process.wait(WAIT_S) == 0
    assert "+TERMINATE ALL;" in (tmp_path / "history").read_text()
