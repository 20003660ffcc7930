from __future__ import annotations

import subprocess
import sys


def test_the_etcd_client_is_loaded_only_when_etcd_is_asked_for() -> None:
    code = "import sys, tidelog.app.serving, tidelog.cli.serve; print('grpc' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert shown.stdout == "False\n", shown.stderr
