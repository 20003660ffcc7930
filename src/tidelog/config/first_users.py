"""Users that a broker adds to the metadata before it takes connections, in the words of `kafka-storage format --add-scram`:
`SCRAM-SHA-256=[name=alice,password=secret]`.  Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tidelog.errors import InvalidConfig

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
ITERATIONS_MIN, ITERATIONS_MAX, ITERATIONS_DEFAULT = 4_096, 16_384, 8_192

_ENTRY = re.compile(r"\s*([\w-]+)\s*=\s*\[(.*)\]\s*", re.DOTALL)
_OPTION = re.compile(r'\s*(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^,"]*))\s*(?:,|$)')
_SHAPE = "write it as 'SCRAM-SHA-512=[name=alice,password=secret]'"


@dataclass(frozen=True, slots=True)
class FirstUser:
    mechanism: str
    name: str
    password: str = field(repr=False)
    iterations: int = ITERATIONS_DEFAULT


def parse_first_user(text: str) -> FirstUser:
    """Values with commas stand in double quotes.  The text holds a password, so that no message repeats it."""
    entry = _ENTRY.fullmatch(text)
    if entry is None:
        raise InvalidConfig(f"--add-scram cannot be read: {_SHAPE}")
    mechanism = entry[1].upper()
    if mechanism not in MECHANISMS:
        raise InvalidConfig(f"--add-scram knows {' and '.join(MECHANISMS)}: {_SHAPE}")
    options = _options(entry[2])
    unknown = options.keys() - {"name", "password", "iterations"}
    if unknown:
        raise InvalidConfig(f"--add-scram takes name, password and iterations: {_SHAPE}")
    if not options.get("name") or not options.get("password"):
        raise InvalidConfig(f"--add-scram needs a name and a password: {_SHAPE}")
    iterations = options.get("iterations", str(ITERATIONS_DEFAULT))
    if not iterations.isdecimal() or not ITERATIONS_MIN <= int(iterations) <= ITERATIONS_MAX:
        raise InvalidConfig(f"--add-scram: iterations must be {ITERATIONS_MIN} to {ITERATIONS_MAX}")
    return FirstUser(mechanism, options["name"], options["password"], int(iterations))


def _options(body: str) -> dict[str, str]:
    options: dict[str, str] = {}
    at = 0
    while body[at:].strip():
        option = _OPTION.match(body, at)
        if option is None:
            raise InvalidConfig(f"--add-scram cannot be read after option {len(options)}: {_SHAPE}")
        plain = option[3]
        options[option[1]] = plain.strip() if plain is not None else re.sub(r"\\(.)", r"\1", option[2])
        at = option.end()
    return options
