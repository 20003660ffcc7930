"""Builds the native modules; everything else is in pyproject.toml."""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

SPEED = Path("src/tidelog/_speed")
CORES = os.cpu_count() or 1

setup(
    ext_modules=cythonize(
        [
            Extension(
                ".".join(source.with_suffix("").parts[1:]),
                [str(source)],
                depends=[str(header) for header in [*SPEED.rglob("*.h"), *SPEED.rglob("*.pxd")]],
                include_dirs=[str(SPEED / "log")],
                extra_compile_args=["-O2", "-g0", "-fno-strict-aliasing"],
            )
            for source in sorted(SPEED.rglob("*.pyx"))
        ],
        nthreads=CORES,
        language_level=3,
        compiler_directives={"boundscheck": False, "wraparound": False, "cdivision": True},
    ),
    options={"build_ext": {"parallel": CORES}},
)
