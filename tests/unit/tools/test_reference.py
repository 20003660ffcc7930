"""The reference pages say what the code does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_reference_is_up_to_date() -> None:
    tool = Path(__file__).resolve().parents[3] / "tools" / "reference.py"
    done = subprocess.run([sys.executable, str(tool), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
