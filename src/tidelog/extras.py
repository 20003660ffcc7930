"""Packages that only some users need.  Each belongs to an extra of Tidelog and is imported when a feature first needs
it; where the package is missing, the error names the command that installs it.

`PACKAGES` is what pyproject.toml says; a test compares both.  `record.columns` asks for pyarrow, `pipeline.needs` for
Spark."""

from __future__ import annotations

from importlib import import_module

from tidelog.errors import TidelogError

# module -> (the name of its distribution, the extra)
PACKAGES = {
    "cryptography": ("cryptography", "security"),
    "fastavro": ("fastavro", "schema"),
    "google.protobuf": ("protobuf", "schema"),
    "grpc": ("grpcio", "etcd"),
    "jsonschema_rs": ("jsonschema-rs", "schema"),
    "obstore": ("obstore", "tiers"),
    "psycopg": ("psycopg", "connect"),
}


class MissingPackage(TidelogError):
    """A feature was used whose packages are not installed."""


def need(module: str, feature: str) -> None:
    """Raises `MissingPackage` if `module` is not installed.  `feature` begins a sentence: `Avro schemas`."""
    try:
        import_module(module)
    except ModuleNotFoundError as problem:
        package, extra = PACKAGES[module]
        raise MissingPackage(
            f"{feature} need {package}, which is not installed here: pip install 'tidelog[{extra}]'"
        ) from problem
