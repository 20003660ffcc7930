"""The partitions of a follower's fetch session that have no news for the follower."""

from typing import Any

def split_unchanged(
    held: dict[Any, Any],
    wanted: dict[Any, Any],
    sent: dict[Any, Any],
    follower: int,
    here: int,
    now_ms: int,
    unchanged: list[Any],
) -> list[tuple[Any, Any]]:
    """What a session wants and has to be looked at.  The other partitions go to `unchanged`: `follower` is in sync, asks in
    the leader's epoch for the log's end as it did before, and knows what is committed and where the log starts.  That
    it is at the end now is noted."""

def wait_all(partitions: list[Any], wait: Any) -> None:
    """A follower's fetch waits for more in all of them."""

def wait_no_more(partitions: list[Any], wait: Any) -> None: ...
