"""The file of profiles: named sets of connection options, and which one is in use.  Passwords are in it, so nobody but its
owner may read it; a change replaces the whole file, one change at a time."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click

VARIABLE = "TIDELOG_PROFILES"
FILE_BYTES_MAX = 1 << 20
MODE = 0o600
# The options that a profile keeps, by their names in the code, and what their values are.
KEPT: Mapping[str, type] = {
    **dict.fromkeys(("bootstrap", "registry", "command_config", "sasl_mechanism", "sasl_user"), str),
    **dict.fromkeys(("tls_ca", "tls_cert", "tls_key"), str),
    **dict.fromkeys(("tls", "as_json"), bool),
    "timeout": float,
}


@dataclass(frozen=True, slots=True)
class Profile:
    name: str
    options: Mapping[str, Any]
    """By the names that the options have in the code."""
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Profiles:
    by_name: Mapping[str, Profile] = field(default_factory=dict)
    in_use: str | None = None

    def named(self, name: str) -> Profile:
        if name not in self.by_name:
            names = ", ".join(sorted(self.by_name)) or "none yet"
            raise click.UsageError(f"There is no profile {name!r}; there are: {names}.")
        return self.by_name[name]

    def with_profile(self, profile: Profile) -> Profiles:
        return replace(self, by_name={**self.by_name, profile.name: profile})

    def without(self, name: str) -> Profiles:
        rest = {other: profile for other, profile in self.by_name.items() if other != name}
        return Profiles(rest, None if self.in_use == name else self.in_use)


def profiles_path() -> Path:
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given)
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "tidelog" / "profiles.json"


def chosen_profile(name: str | None) -> Profile | None:
    """The one of this name, or the one in use, or None."""
    profiles = read_profiles()
    chosen = name or profiles.in_use
    return None if chosen is None else profiles.named(chosen)


def read_profiles() -> Profiles:
    path = profiles_path()
    try:
        with path.open("rb") as source:
            mode = stat.S_IMODE(os.fstat(source.fileno()).st_mode)
            if mode & 0o077:
                raise click.UsageError(
                    f"Others can read {path}, which may hold passwords (mode {mode:o}): chmod 600 {path}"
                )
            data = source.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return Profiles()
    except OSError as problem:
        raise click.UsageError(f"The profiles cannot be read: {problem}.") from None
    try:
        return _parsed(json.loads(data))
    except (ValueError, TypeError, KeyError, AttributeError):
        raise click.UsageError(
            f"{path} is not a file of profiles: mend or remove it, then create the profiles again."
        ) from None


@contextmanager
def changed_profiles() -> Iterator[list[Profiles]]:
    """A list with the profiles; what is appended to it is written at the end.  One change at a time."""
    import fcntl

    path = profiles_path()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = os.open(path.parent, os.O_RDONLY)
    except OSError as problem:
        raise click.UsageError(f"The profiles cannot be written: {problem}.") from None
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        steps = [read_profiles()]
        yield steps
        if len(steps) > 1:
            _write(path, steps[-1])
    finally:
        os.close(folder)


def _write(path: Path, profiles: Profiles) -> None:
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE), "w", encoding="utf-8") as file:
            json.dump(_plain(profiles), file, indent=2)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError as problem:
        fresh.unlink(missing_ok=True)
        raise click.UsageError(f"The profiles cannot be written: {problem}.") from None


def _plain(profiles: Profiles) -> dict[str, Any]:
    return {
        "in_use": profiles.in_use,
        "profiles": {
            name: {
                **profile.options,
                **({} if profile.password is None else {"sasl_password": profile.password}),
            }
            for name, profile in sorted(profiles.by_name.items())
        },
    }


def _parsed(content: Any) -> Profiles:
    in_use = content["in_use"]
    by_name = {}
    for name, options in content["profiles"].items():
        kept = dict(options)
        password = kept.pop("sasl_password", None)
        if not isinstance(password, str | None) or any(
            type(kept[option]) is not KEPT[option] for option in kept
        ):
            raise TypeError(name)
        by_name[name] = Profile(name, kept, password)
    if in_use is not None and in_use not in by_name:
        raise KeyError(in_use)
    return Profiles(by_name, in_use)
