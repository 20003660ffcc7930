"""From the settings of one broker to N processes of it, until SIGINT or SIGTERM."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tidelog import errors
from tidelog.app.metadata_server import SOCKET_FILE, serve_metadata
from tidelog.app.processes.folders import METADATA, locked, prepare
from tidelog.app.processes.plan import plan
from tidelog.app.processes.supervisor import Supervisor, say_ready
from tidelog.app.serving import UsersAdded, serve
from tidelog.config import BrokerConfig
from tidelog.config.first_users import FirstUser
from tidelog.logs import parse_levels, set_up


def serve_processes(
    settings: Mapping[str, str],
    count: int,
    first_users: Sequence[FirstUser] = (),
    users_added: UsersAdded = lambda _: None,
) -> int:
    """The exit code."""
    config = BrokerConfig.of(settings)
    set_up(
        config.tidelog_log_format,
        parse_levels(config.tidelog_log_levels, "tidelog.log.levels"),
        config.node_id,
    )
    folder = os.path.abspath(config.log_dirs[0])
    has_own_store = config.metadata_address is None
    store = Path(folder, METADATA)
    ids = range(config.node_id, config.node_id + count)

    def run_broker(own: Mapping[str, str]) -> int:
        return serve(BrokerConfig.of(own), first_users, users_added)

    try:
        metadata = f"unix:{store / SOCKET_FILE}" if has_own_store else None
        plans = plan(settings, count, socket.gethostname(), metadata)
        with locked(folder):
            prepare(config.log_dirs, ids, has_own_store)
            run_store = (lambda: serve_metadata(store)) if has_own_store else None
            return Supervisor(plans, run_broker, run_store).run(say_ready)
    except errors.TidelogError as problem:
        print(f"tidelog: {problem}", file=sys.stderr)
        return 1
    except OSError as problem:
        where = f": {problem.filename}" if problem.filename else ""
        print(f"tidelog: {problem.strerror or problem}{where}", file=sys.stderr)
        return 1
