"""The program that spark-submit runs on the driver: the same as `tidelog pipeline run`, in spark-submit's session."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path


def main(arguments: list[str]) -> int:
    from tidelog.pipeline.running.apps import App, AppFolder
    from tidelog.pipeline.running.runner import PipelineRunner

    given = json.loads(arguments[0])
    app = App.of_json(given["app"] | {"pid": os.getpid(), "started_ms": time.time_ns() // 1_000_000})
    folder = AppFolder(Path(given["home"]), app.name)
    return 0 if PipelineRunner(folder, app, lambda text: print(text, flush=True)).run() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
