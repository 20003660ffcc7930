"""One client writes or reads records, in a process of its own; prints what that took as JSON.

`python -m bench.clients.work CLIENT ACTION BOOTSTRAP TOPIC SIZE COUNT SETTINGS CONTENT`.  The topic has one
partition; readers find the records there.
"""

from __future__ import annotations

import sys

from bench.clients.meter import Load
from bench.clients.readers import READERS
from bench.clients.writers import WRITERS


def main() -> None:
    client, action, bootstrap, topic, size, count, settings, content = sys.argv[1:]
    load = Load(bootstrap, topic, int(size), int(count), settings == "same", content == "full")
    (WRITERS if action == "produce" else READERS)[client](load)


if __name__ == "__main__":
    main()
