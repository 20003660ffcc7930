"""What is installed: every import is declared, wheels hold what runs and no generated C, requirements agree."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.tidy.test_layers import ROOT, SOURCE, imported, sources
from tidelog.extras import PACKAGES

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Modules whose distribution has another name, or comes with one that is declared.
DISTRIBUTIONS = {
    "h11": "uvicorn",
    "prompt_toolkit": "prompt-toolkit",
    "py4j": "pyspark",
    "re2": "google-re2",
    **{module.split(".")[0]: distribution for module, (distribution, _) in PACKAGES.items()},
}
WHEEL_KINDS = {".css", ".js", ".py", ".pyi", ".svg", ".properties", ".typed"}


def declared(*extras: str) -> set[str]:
    lines = [*PROJECT["dependencies"], *(one for extra in extras for one in EXTRAS[extra])]
    return {re.split(r"[<>=\[]", line)[0] for line in lines}


EXTRAS = PROJECT["optional-dependencies"]


def test_every_import_is_a_declared_dependency() -> None:
    # Users bring pytest, who use its plugin.
    known = declared("arrow", "connect", "etcd", "pipeline", "schema", "security", "tiers") | {
        "tidelog",
        "typing_extensions",
        "pytest",
    }
    for path in sources():
        for name in imported(path):
            top = name.split(".")[0]
            if top not in sys.stdlib_module_names:
                assert DISTRIBUTIONS.get(top, top) in known, f"{path.relative_to(SOURCE)} imports {name}"


def test_a_wheel_holds_what_runs_and_no_generated_c(tmp_path: Path) -> None:
    # Without compiling: this is the step of a wheel that copies everything else.
    done = subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build_py", "--build-lib", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    packed = {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
    assert {path.suffix or path.name for path in packed} <= WHEEL_KINDS
    source = ROOT / "src"
    assert {path for path in packed if path.suffix == ".py"} == {
        path.relative_to(source) for path in source.rglob("*.py")
    }
    assert {path.relative_to(source) for path in (SOURCE / "gateways/console/static").iterdir()} <= packed
    assert {path.relative_to(source) for path in SOURCE.glob("_speed/*/*.pyi")} <= packed
    assert Path("tidelog/py.typed") in packed


def test_both_files_of_requirements_agree() -> None:
    run, dev = (
        dict(re.findall(r"^([a-z0-9.-]+)==(\S+)", (ROOT / name).read_text(), re.MULTILINE))
        for name in ("requirements.txt", "requirements-dev.txt")
    )
    assert run.items() <= dev.items()
    assert declared("etcd", "schema", "security") <= set(run)
    assert len(run) < len(dev) / 2 and "pytest" not in run
    for name in ("requirements.txt", "requirements-dev.txt"):
        assert "://" not in (ROOT / name).read_text(), f"{name} names a registry"
