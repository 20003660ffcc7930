"""Kafka's config providers: `config.providers` names them, and a value such as `${file:/run/secrets.properties:password}`
is looked up when a broker starts.

The three providers of Apache Kafka are served: of a properties file, of a directory with a file for each key, and of the
environment.  `resolved` runs before `BrokerConfig.of`, so that passwords need not stand in server.properties.  A reference
to a provider that `config.providers` does not name stays as it is, as in Kafka; one that leads nowhere is an error."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tidelog.config.properties import parse_properties
from tidelog.errors import InvalidConfig

PROVIDERS = "config.providers"
BYTES_MAX = 1 << 20
_PREFIX = f"{PROVIDERS}."
_PACKAGE = "org.apache.kafka.common.config.provider."
_REFERENCE = re.compile(r"\$\{([^}:]*):(?:([^}]*):)?([^}:]*)\}")

Parameters = Mapping[str, str]
LookUp = Callable[[str, str], str | None]
"""(path, key) -> the value, None if there is no such key."""


def resolved(given: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The settings without those of providers, and with the values of all references; InvalidConfig names the setting
    whose reference cannot be resolved."""
    names = [name.strip() for name in given.get(PROVIDERS, "").split(",") if name.strip()]
    look_ups = {name: _provider(name, given, environment) for name in names}
    unnamed = [
        name
        for name in given
        if name.startswith(_PREFIX) and name.removeprefix(_PREFIX).split(".")[0] not in names
    ]
    if unnamed:
        provider = unnamed[0].removeprefix(_PREFIX).split(".")[0]
        raise InvalidConfig(
            f"{unnamed[0]} is of a provider that {PROVIDERS} does not name: add {provider} to it"
        )
    settings = {name: text for name, text in given.items() if not name.startswith(_PREFIX)}
    if not look_ups:
        return settings
    return {name: _resolve(name, text, look_ups) for name, text in settings.items()}


def _provider(name: str, given: Mapping[str, str], environment: Mapping[str, str]) -> LookUp:
    own = f"{_PREFIX}{name}."
    class_name = given.get(f"{own}class", "")
    parameters = {
        setting.removeprefix(f"{own}param."): text
        for setting, text in given.items()
        if setting.startswith(f"{own}param.")
    }
    kind = class_name.removeprefix(_PACKAGE)
    if kind == "EnvVarConfigProvider":
        return EnvironmentProvider(_pattern(f"{own}param.allowlist.pattern", parameters), environment).look_up
    if kind == "FileConfigProvider":
        return FileProvider(_allowed_paths(parameters)).look_up
    if kind == "DirectoryConfigProvider":
        return DirectoryProvider(_allowed_paths(parameters)).look_up
    raise InvalidConfig(
        f"{own}class cannot be {class_name!r}: Tidelog loads no Java classes; use {_PACKAGE}FileConfigProvider, "
        "DirectoryConfigProvider or EnvVarConfigProvider"
    )


def _allowed_paths(parameters: Parameters) -> tuple[Path, ...]:
    return tuple(
        Path(path.strip()) for path in parameters.get("allowed.paths", "").split(",") if path.strip()
    )


def _pattern(name: str, parameters: Parameters) -> re.Pattern[str]:
    text = parameters.get("allowlist.pattern", ".*")
    try:
        return re.compile(text)
    except re.error as problem:
        raise InvalidConfig(f"{name} cannot be {text!r}: it is no regular expression ({problem})") from None


def _resolve(name: str, text: str, look_ups: Mapping[str, LookUp]) -> str:
    def value(match: re.Match[str]) -> str:
        provider, path, key = match[1], match[2] or "", match[3]
        look_up = look_ups.get(provider)
        if look_up is None:
            return match[0]
        try:
            text = look_up(path, key)
        except InvalidConfig as problem:
            raise InvalidConfig(f"{name} refers to {match[0]}: {problem}") from None
        except OSError as problem:
            raise InvalidConfig(
                f"{name} refers to {match[0]}: {problem.filename}: {problem.strerror or problem}"
            ) from None
        except UnicodeDecodeError:
            raise InvalidConfig(f"{name} refers to {match[0]}: the file is not UTF-8 text") from None
        if text is None:
            raise InvalidConfig(f"{name} refers to {match[0]}, but there is no {key!r} there")
        return text

    return _REFERENCE.sub(value, text)


@dataclass(frozen=True, slots=True)
class EnvironmentProvider:
    """`${NAME:VARIABLE}`"""

    allowed: re.Pattern[str]
    environment: Mapping[str, str] = field(repr=False)

    def look_up(self, path: str, key: str) -> str | None:
        if path:
            raise InvalidConfig("a variable of the environment has no path: write ${PROVIDER:VARIABLE}")
        return self.environment.get(key) if self.allowed.fullmatch(key) else None


@dataclass(frozen=True, slots=True)
class FileProvider:
    """`${NAME:PATH:KEY}`, of a properties file."""

    allowed: tuple[Path, ...]

    def look_up(self, path: str, key: str) -> str | None:
        return parse_properties(_read(_checked(path, self.allowed))).get(key)


@dataclass(frozen=True, slots=True)
class DirectoryProvider:
    """`${NAME:PATH:FILE}`, the content of a file of a directory, as Kubernetes mounts secrets."""

    allowed: tuple[Path, ...]

    def look_up(self, path: str, key: str) -> str | None:
        folder = _checked(path, self.allowed)
        if Path(key).name != key:
            raise InvalidConfig("the last part is the name of a file in the directory, without a path")
        file = folder / key
        return _read(file) if file.is_file() else None


def _checked(path: str, allowed: tuple[Path, ...]) -> Path:
    """`..` is resolved before the path is compared, so that it leads nowhere out of the allowed paths."""
    if not path:
        raise InvalidConfig("the path is missing: write ${PROVIDER:PATH:KEY}")
    normal = Path(os.path.normpath(path))
    if allowed and not any(normal.is_relative_to(os.path.normpath(place)) for place in allowed):
        raise InvalidConfig(f"{path} is not below allowed.paths, which is {','.join(map(str, allowed))}")
    return normal


def _read(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        text = file.read(BYTES_MAX + 1)
    if len(text) > BYTES_MAX:
        raise InvalidConfig(f"{path} has more than {BYTES_MAX} characters")
    return text
