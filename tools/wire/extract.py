"""Turns the message definitions inside Apache Kafka's jars into our own table of facts, `definitions.txt`.

    .venv/bin/python tools/wire/extract.py JAR...

The jars are kafka-clients and, for the records of internal topics, those of the group, share and
transaction coordinators and of storage.  Names, types and versions are taken over; prose is not.
`schema.py` documents the format and reads it back.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tools.wire.schema import DEFINITIONS, FORMAT  # noqa: E402

KINDS = {
    "request": "request",
    "response": "response",
    "data": "data",
    "coordinator-key": "key",
    "coordinator-value": "value",
    "metadata": "record",
}
# Records of the metadata log (our metadata lives elsewhere), and headers: `wire/frame.py` has them by hand.
LEFT_OUT = re.compile(r"common/metadata/|/(Request|Response)Header\.json$|/QuorumStateData\.json$")


def definitions_in(jar: Path) -> list[dict[str, Any]]:
    """Every definition in a jar that describes bytes Kafka 4 still reads or writes."""
    found = []
    with zipfile.ZipFile(jar) as archive:
        for name in sorted(archive.namelist()):
            if re.search(r"(^|/)message/\w+\.json$", name) and not LEFT_OUT.search(name):
                text = archive.read(name).decode()
                definition = json.loads(re.sub(r"(?m)^\s*//.*$|(?<=[\s,\]}])//.*$", "", text))
                if definition["validVersions"] != "none":
                    found.append(definition)
    return found


def table_of(definitions: list[dict[str, Any]]) -> str:
    """The text of the table: APIs by key, request before response, then everything else by name."""
    blocks = [message_lines(definition) for definition in sorted(definitions, key=_place)]
    return FORMAT + "\n" + "\n".join("\n".join(block) + "\n" for block in blocks)


def _place(definition: dict[str, Any]) -> tuple[int, int, str]:
    order = ["request", "response", "data", "coordinator-key", "coordinator-value", "metadata"]
    kind = order.index(definition["type"])
    return (definition["apiKey"], kind, "") if kind < 2 else (1 << 16, 0, str(definition["name"]))


def message_lines(definition: dict[str, Any]) -> list[str]:
    words = [KINDS[definition["type"]], definition["name"]]
    if "apiKey" in definition:
        words.append(f"key={definition['apiKey']}")
    words.append(f"versions={definition['validVersions']}")
    words.append(f"flexible={definition.get('flexibleVersions', 'none')}")
    if "listeners" in definition:
        words.append("listeners=" + ",".join(sorted(definition["listeners"])))
    if definition.get("latestVersionUnstable"):
        words.append("unstable")
    valid = _bounds(definition["validVersions"])
    lines = [" ".join(words)]
    for struct in definition.get("commonStructs", []):
        lines.append(f"  struct {struct['name']} {struct['versions']}")
        lines += field_lines(struct["fields"], "    ", valid)
    return lines + field_lines(definition["fields"], "  ", valid)


def field_lines(fields: list[dict[str, Any]], indent: str, valid: tuple[int, int]) -> list[str]:
    lines = []
    for field in fields:
        tagged = field.get("taggedVersions")
        versions = str(field.get("versions", tagged))
        assert tagged in (None, versions), f"{field['name']} is tagged in some versions and not in others"
        low, high = _bounds(versions)
        if low > valid[1] or high < valid[0]:
            continue
        words = [field["name"], field["type"], versions]
        if "nullableVersions" in field:
            words.append(f"nullable={field['nullableVersions']}")
        if tagged is not None:
            words.append(f"tag={field['tag']}")
        # A JSON null says nothing; only the word "null" makes null the default.
        default = _default(field.get("default"))
        if default not in ("", "0", "false"):
            words.append(f"default={default}")
        if str(field.get("ignorable", False)).lower() == "true":
            words.append("ignorable")
        lines.append(indent + " ".join(words))
        lines += field_lines(field.get("fields", []), indent + "  ", valid)
    return lines


def _default(value: object) -> str:
    text = "" if value is None else str(value).lower()
    return str(int(text, 16)) if text.startswith("0x") else text


def _bounds(versions: str) -> tuple[int, int]:
    low, _, high = versions.partition("-")
    if versions.endswith("+"):
        return int(versions[:-1]), 1 << 15
    return int(low), int(high or low)


def main(jars: list[str]) -> None:
    if not jars:
        sys.exit(__doc__)
    definitions = [definition for jar in jars for definition in definitions_in(Path(jar))]
    DEFINITIONS.write_text(table_of(definitions))
    print(f"{len(definitions)} messages in {DEFINITIONS.relative_to(ROOT)}")


if __name__ == "__main__":
    main(sys.argv[1:])
