"""How a consumer takes part in its group, with Kafka's names and defaults.  Pure."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.client import checks
from tidelog.client.checks import INT32_MAX
from tidelog.client.groups.assignors import Assignor

PROTOCOLS = ("classic", "consumer")


@dataclass(frozen=True, slots=True)
class GroupOptions:
    group_id: str | None
    group_instance_id: str | None
    group_protocol: str
    group_remote_assignor: str | None
    assignors: tuple[Assignor, ...]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    enable_auto_commit: bool
    auto_commit_interval_ms: int

    def __post_init__(self) -> None:
        for name in ("session_timeout_ms", "heartbeat_interval_ms", "max_poll_interval_ms"):
            checks.whole(name, getattr(self, name), 1, INT32_MAX)
        checks.whole("auto_commit_interval_ms", self.auto_commit_interval_ms, 1)
        checks.truth("enable_auto_commit", self.enable_auto_commit)
        for name in ("group_id", "group_instance_id", "group_remote_assignor"):
            if getattr(self, name) is not None:
                checks.text(name, getattr(self, name))
        if self.group_protocol not in PROTOCOLS:
            raise ValueError(
                f"group_protocol cannot be {self.group_protocol!r}: use {' or '.join(PROTOCOLS)}"
            )
        if self.group_id == "":
            raise ValueError("group_id cannot be empty: leave it out to read without a group")
        if self.group_instance_id == "":
            raise ValueError("group_instance_id cannot be empty: leave it out, or name the member")
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ValueError(
                f"heartbeat_interval_ms ({self.heartbeat_interval_ms}) must be below session_timeout_ms "
                f"({self.session_timeout_ms}): a third of it is usual"
            )
        if self.group_instance_id is not None and self.group_id is None:
            raise ValueError("group_instance_id needs a group_id: name the group, or leave both out")
        if self.group_remote_assignor is not None and self.group_protocol != "consumer":
            raise ValueError("group_remote_assignor needs group_protocol='consumer'")
