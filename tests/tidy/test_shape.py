"""Cycles of imports, classes with what they inherit (also from native classes), names of classes, sizes of tests.

Each rule has a list of what broke it when the rule was made.  The lists may only become shorter: a test fails for what
is new, and for what is mended and still on a list."""

from __future__ import annotations

from tests.tidy.code import classes, cycles, methods
from tests.tidy.test_layers import METHODS_MAX, ROOT, SOURCE, sources

TEST_LINES_MAX = 500

# The last parts of the modules' names.
CYCLES = [
    {"produce", "in_transaction", "decompressing", "schema_validation"},
    {"joins", "table"},
]

# Classes with more methods than METHODS_MAX when inherited ones count, and how many they may have.
LARGE = {"Admin": 55, "Consumer": 36, "HostedPartition": 35, "Log": 31, "OutgoingBatch": 34}

# Names that several classes have, with the reason.  The asyncio client and the blocking one have the same names, in
# `tidelog.aio` and in `tidelog`; a user imports one of them.
CLIENTS = dict.fromkeys(("Admin", "Consumer", "Producer", "ShareConsumer"), 2)
# A native class and another one, of a layer that does not see it.
NATIVE_NAMES = dict.fromkeys(
    ("Bytes", "Delivery", "Descriptor", "Header", "Poller", "Record", "Rows", "Rules", "Writer"), 2
)
DUPLICATES = {**CLIENTS, **NATIVE_NAMES}


def test_no_new_cycle_of_imports() -> None:
    found = [{name.split(".")[-1] for name in cycle} for cycle in cycles()]
    assert not [one for one in found if one not in CYCLES], "modules that import each other are one module"
    assert not [one for one in CYCLES if one not in found], "these are gone: take them off the list"


def test_classes_are_small_with_what_they_inherit() -> None:
    counts: dict[str, int] = {}
    for one in classes():
        count = len(methods(one))
        counts[one.node.name] = max(count, counts.get(one.node.name, 0))
        most = LARGE.get(one.node.name, METHODS_MAX)
        assert count <= most, (
            f"{one.where}: {one.node.name} has {count} methods with inherited ones, {most} are allowed"
        )
    small = [name for name in LARGE if counts.get(name, 0) <= METHODS_MAX]
    assert not small, "these are small now: take them off the list"


def test_only_storage_reads_a_log_otherwise_than_by_fetch() -> None:
    """`Log.fetch` may say that records are not here yet: whoever reads a log handles that."""
    past_it = [
        path.relative_to(SOURCE).as_posix()
        for path in sources()
        if path.relative_to(SOURCE).parts[0] != "storage" and ".reader.read(" in path.read_text()
    ]
    assert not past_it, "read through Log.fetch, or storage.fetched_log.fetch_bytes"


def test_a_class_name_is_unique() -> None:
    places: dict[str, list[str]] = {}
    for one in classes():
        places.setdefault(one.node.name, []).append(one.where)
    for name, where in places.items():
        most = DUPLICATES.get(name, 1)
        assert len(where) <= most, f"{name} names {len(where)} classes: {', '.join(where)}"
    fewer = {
        name: len(places.get(name, ()))
        for name, count in DUPLICATES.items()
        if len(places.get(name, ())) < count
    }
    assert not fewer, "these are fewer now: change the list"


def test_no_test_file_is_too_long() -> None:
    for path in (ROOT / "tests").rglob("*.py"):
        count = path.read_text().count("\n")
        assert count <= TEST_LINES_MAX, (
            f"{path.relative_to(ROOT)} has {count} lines, {TEST_LINES_MAX} are allowed: two subjects in one file?"
        )
