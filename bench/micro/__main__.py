"""`python -m bench.micro [NAME...]`: all native modules, or those named."""

from __future__ import annotations

import sys

from bench.micro import (
    acceptance,
    batch,
    compaction,
    connection,
    crc32c,
    frames,
    gate,
    keymap,
    records,
    shortcut,
    writer,
)
from bench.micro.timing import nanoseconds

MODULES = (crc32c, batch, acceptance, records, writer, frames, connection, shortcut, gate, keymap, compaction)


def main() -> int:
    by_name = {module.__name__.rpartition(".")[2]: module for module in MODULES}
    wanted = sys.argv[1:] or list(by_name)
    unknown = [name for name in wanted if name not in by_name]
    if unknown:
        print(f"no module is called {', '.join(unknown)}; there are {', '.join(by_name)}", file=sys.stderr)
        return 2
    for name in wanted:
        for case in by_name[name].cases():
            print(f"{name:<12} {case.name:<52} {nanoseconds(case.work):>12,.0f} ns")
    return 0


if __name__ == "__main__":
    sys.exit(main())
