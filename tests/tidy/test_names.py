"""Variables name the thing they hold, and a file is named after a noun of Kafka or of the machine, not after a riddle."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.test_layers import SOURCE, sources, tree_of

# These name a moment of the writer's thinking: a reader has to find out what is held.
VAGUE = {"one", "found", "known", "asked", "what", "level", "room", "told", "said", "it", "well"}

UNNAMED_MAX = 36  # bindings of these words; the number only becomes smaller

FRAGMENTS_MAX = 20  # docstrings that begin without their noun; the number only becomes smaller

# Where such a word is the thing's own name.
REASONS = {
    ("level", "broker/loggers.py"): "the level of a logger",
    ("level", "logs.py"): "the level of a logger",
    ("level", "record/builder.py"): "the level of a compression codec",
    ("level", "record/codecs.py"): "the level of a compression codec",
    ("level", "replication/acceptance.py"): "the level of a compression codec",
    ("level", "registry/compatibility.py"): "a schema's compatibility level",
    ("level", "cli/schemas.py"): "a schema's compatibility level",
    ("level", "gateways/console/pages/schemas/subject.py"): "a schema's compatibility level",
    ("level", "net/network.py"): "the protocol level of setsockopt",
    ("level", "net/tls.py"): "the protocol level of setsockopt",
    ("level", "testing/sockets.py"): "the protocol level of setsockopt",
}

# Words that say nothing to a person who looks for a part of a broker.
RIDDLES = {
    "cadence", "figures", "gathering", "held", "homecoming", "level", "lookout", "opening", "pulse", "replays",
    "retreat", "room", "steward", "strangers", "surroundings", "tallies", "tally", "turns", "vigil",
}  # fmt: skip

# What a Kafka engineer looks for, and the file whose first line has the word.
KAFKA_WORDS = {
    "authorization": "broker/gate.py",
    "controller": "metadata/active_controller.py",
    "in-sync set": "replication/in_sync.py",
    "ISR": "metadata/in_sync_changes.py",
    "high watermark": "replication/replica_state.py",
    "LEO": "replication/replica_state.py",
    "leader epoch": "storage/leader_epochs.py",
    "Log directory failure": "replication/directory_failure.py",
    "log directory": "storage/dirs/log_dir.py",
    "purgatory": "replication/delayed_fetch.py",
    "quotas": "broker/bounds/quota_manager.py",
    "replica fetcher": "replication/replica_fetcher.py",
    "throttles": "replication/throttle.py",
    "truncation": "storage/cutter.py",
    "unclean leader election": "metadata/elections/elections.py",
    "unclean restart": "metadata/elections/unclean_restart.py",
}

FILES_MAX = 26  # and folders, in one folder; the package itself has one for each layer


def bindings(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree_of(path)):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.MatchAs(name=str(name)):
                yield name, node.lineno
            case ast.ExceptHandler(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name, node.lineno


def native_bindings(path: Path) -> Iterator[tuple[str, int]]:
    """Declarations, assignments and loops of Cython; parameters count as declarations."""
    code = re.sub(r'""".*?"""', lambda text: "\n" * text[0].count("\n"), path.read_text(), flags=re.DOTALL)
    for number, line in enumerate(code.split("\n"), 1):
        statement = line.partition("#")[0]
        for match in re.finditer(r"(?<![\w.\"])(\w+)(?= = |=[^=]|, \w+ = )|\bfor (\w+)\b", statement):
            yield match[1] or match[2], number
        if re.match(r"\s*c?p?def\b", statement):
            yield from ((name, number) for name in re.findall(r"\w+", statement))


def test_a_variable_names_the_thing_it_holds() -> None:
    places = [
        (name, path.relative_to(SOURCE).as_posix(), line)
        for path in sources()
        for name, line in bindings(path)
    ] + [
        (name, path.relative_to(SOURCE).as_posix(), line)
        for path in sorted((SOURCE / "_speed").rglob("*.pyx"))
        for name, line in native_bindings(path)
    ]
    vague = [place for place in places if place[0] in VAGUE]
    unnamed = [place for place in vague if place[:2] not in REASONS]
    assert len(unnamed) <= UNNAMED_MAX, "name the thing: `for partition in partitions`, not `for one in them`"
    stale = set(REASONS) - {place[:2] for place in vague}
    assert not stale, f"take these off the list: {stale}"


def test_no_file_has_a_riddle_for_a_name() -> None:
    riddles = [path for path in sources() if path.stem in RIDDLES and path.parent.name != "model"]
    assert not riddles, "name the file after what it owns, in Kafka's words"


def first_line(path: Path) -> str:
    """The first sentence of a module, which may take two lines."""
    paragraph = (ast.get_docstring(tree_of(path)) or "").split("\n\n")[0]
    return " ".join(paragraph.split())


def test_words_of_kafka_lead_to_their_files() -> None:
    missing = {word: name for word, name in KAFKA_WORDS.items() if word not in first_line(SOURCE / name)}
    assert not missing, "the first line of a file says what it owns, in Kafka's words"


def test_a_docstring_names_what_it_describes() -> None:
    fragments = [
        f"{path.relative_to(SOURCE).as_posix()}:{number}"
        for path in sources()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.match(r'\s*"""(Of|Those|It|So many) ', line)
    ]
    assert len(fragments) <= FRAGMENTS_MAX, "begin with the noun: `The leader's epoch.`, not `Of the leader.`"


def test_no_folder_hides_its_architecture() -> None:
    folders = {path.parent for path in sources()} - {SOURCE}
    crowded = {}
    for folder in folders:
        entries = [
            entry
            for entry in folder.iterdir()
            if entry.suffix in (".py", ".pyx") or (entry / "__init__.py").is_file()
        ]
        if len(entries) > FILES_MAX:
            crowded[folder.relative_to(SOURCE).as_posix()] = len(entries)
    assert not crowded, "what belongs together goes to a folder of its own"
