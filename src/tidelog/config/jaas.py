"""`sasl.jaas.config`: one login module with its options, in the syntax that Kafka takes over from Java.  Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from tidelog.errors import InvalidConfig

_ENTRY = re.compile(
    r"\s*([\w.$]+)\s+(required|requisite|sufficient|optional)\b(.*?);?\s*", re.DOTALL | re.IGNORECASE
)
_OPTION = re.compile(r"""\s*([\w.-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"';=]+))""")
_ESCAPED = re.compile(r"\\(.)")
_USER = "user_"


class JaasEntry(NamedTuple):
    module: str
    options: Mapping[str, str]

    @property
    def username(self) -> str | None:
        return self.options.get("username")

    @property
    def password(self) -> str | None:
        return self.options.get("password")

    @property
    def listed_users(self) -> dict[str, str]:
        """The `user_NAME="password"` options of PLAIN."""
        return {
            name.removeprefix(_USER): password
            for name, password in self.options.items()
            if name.startswith(_USER)
        }


def parse_jaas(text: str, setting: str) -> JaasEntry:
    """The text holds passwords, so that no message repeats it."""
    entry = _ENTRY.fullmatch(text)
    if entry is None:
        raise InvalidConfig(
            f"{setting} cannot be read: write it as "
            'org.apache.kafka.common.security.plain.PlainLoginModule required username="..." password="...";'
        )
    options: dict[str, str] = {}
    body, at = entry[3], 0
    while body[at:].strip():
        option = _OPTION.match(body, at)
        if option is None:
            raise InvalidConfig(
                f'{setting} cannot be read after option {len(options)}: write options as name="value"'
            )
        quoted = option[2] if option[2] is not None else option[3]
        options[option[1]] = option[4] if quoted is None else _ESCAPED.sub(r"\1", quoted)
        at = option.end()
    return JaasEntry(entry[1], options)
