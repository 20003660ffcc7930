"""Tidelog as a wheel: what is inside, and that it runs in an environment that has nothing else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.conftest import ON_KAFKA

pytestmark = pytest.mark.skipif(ON_KAFKA, reason="it installs Tidelog")

ROOT = Path(__file__).resolve().parents[2]
UV = Path(sys.executable).with_name("uv")
GENERATED = (".c", ".so")


def command(*words: str | Path, folder: Path = ROOT) -> str:
    # Neither the user's settings of pip nor those of this checkout are a stranger's.
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TIDELOG_", "PYTHON", "VIRTUAL"))
    }
    done = subprocess.run(
        [str(word) for word in words], cwd=folder, env=env, capture_output=True, text=True, timeout=800
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def fresh_environment(folder: Path, *packages: str | Path) -> Path:
    """A virtual environment with these packages and what they require, in the versions of requirements.txt.  What
    `make dev` has downloaded is taken from there; only what is missing is downloaded."""
    command(UV, "venv", "--python", sys.executable, folder)
    install = [
        UV,
        "pip",
        "install",
        "--python",
        folder / "bin/python",
        "-c",
        ROOT / "requirements.txt",
        *packages,
    ]
    try:
        command(*install, "--offline")
    except AssertionError:
        command(*install)
    return folder / "bin"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Built from a copy of this checkout.  The compiled modules are put where the build expects its own, so that only
    the packaging is done anew."""
    copy = tmp_path_factory.mktemp("checkout")
    # A checkout in which somebody has worked: generated C lies beside the sources.
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    tag = f"{sys.platform}-{os.uname().machine}-{sys.implementation.cache_tag}"
    for kind in GENERATED:
        for file in sorted((copy / "src").rglob("*" + kind)):
            if kind == ".so":
                built = copy / "build" / f"lib.{tag}" / file.relative_to(copy / "src")
                built.parent.mkdir(parents=True, exist_ok=True)
                file.rename(built)
            else:
                file.touch()
    for file in (copy / "build").rglob("*.so"):
        file.touch()
    command(UV, "build", "--wheel", "--offline", "--no-build-isolation", "--python", sys.executable, copy)
    (wheel,) = (copy / "dist").glob("*.whl")
    yield wheel
    shutil.rmtree(copy)


def test_a_wheel_has_every_module_and_page_and_no_c(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as content:
        names = {name for name in content.namelist() if ".dist-info/" not in name}
    sources = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.py")}
    assert {name for name in names if name.endswith(".py")} == sources
    native = {path.stem for path in (ROOT / "src").rglob("*.pyx")}
    assert {Path(name).name.partition(".")[0] for name in names if name.endswith(".so")} == native
    static = [path for path in (ROOT / "src/tidelog/gateways/console/static").iterdir() if path.is_file()]
    assert {f"tidelog/gateways/console/static/{path.name}" for path in static} <= names
    assert {"tidelog/py.typed", "tidelog/pipeline/log4j2.properties"} <= names
    assert {Path(name).suffix for name in names} <= {
        ".py",
        ".pyi",
        ".so",
        ".typed",
        ".properties",
        *(path.suffix for path in static),
    }
    assert wheel.stat().st_size < 10 << 20


def test_a_wheel_alone_runs_a_broker_and_names_the_extras_it_lacks(wheel: Path, tmp_path: Path) -> None:
    binaries = fresh_environment(tmp_path / "env", wheel)
    told = json.loads(command(binaries / "tidelog", "quickstart", "--json", folder=tmp_path))
    assert [record["value"] for record in told["records"]] == ["hello", "bonjour", "hola"]

    packages = command(UV, "pip", "list", "--format", "json", "--python", binaries / "python")
    installed = {package["name"] for package in json.loads(packages)}
    assert not installed & {
        "cryptography",
        "grpcio",
        "pyarrow",
        "pyspark",
        "fastavro",
        "cython",
        "setuptools",
    }
    refused = subprocess.run(
        [binaries / "tidelog", "certs", tmp_path / "certs"], capture_output=True, text=True, timeout=60
    )
    assert refused.returncode == 1
    assert "pip install 'tidelog[security]'" in refused.stderr


@pytest.mark.deep
def test_a_fresh_clone_makes_a_wheel_and_a_source_distribution_that_run(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    command("git", "clone", "--quiet", ROOT, clone)
    command("make", "wheel", f"PYTHON={sys.executable}", folder=clone)
    (wheel,) = (clone / "dist").glob("*.whl")
    (sources,) = (clone / "dist").glob("*.tar.gz")
    assert "manylinux" in wheel.name
    with tarfile.open(sources) as content:
        names = content.getnames()
    assert not [name for name in names if name.endswith(GENERATED)]
    assert [name for name in names if name.endswith(".pyx")]
    for number, package in enumerate((wheel, sources)):
        binaries = fresh_environment(tmp_path / f"env{number}", package)
        told = json.loads(command(binaries / "tidelog", "quickstart", "--json", folder=tmp_path))
        assert len(told["records"]) == 3
