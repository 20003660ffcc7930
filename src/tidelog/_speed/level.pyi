from typing import Any

def sort_level(
    held: dict[Any, Any],
    wanted: dict[Any, Any],
    told: dict[Any, Any],
    node: int,
    here: int,
    now_ms: int,
    level: list[Any],
) -> list[tuple[Any, Any]]:
    """What a session wants and has to be looked at.  The other partitions go to `level`: the follower `node` is in sync
    with all that is there, asks in the leader's epoch, and was told of what is committed and where the log starts.  That
    it is level now is noted."""

def wait_all(partitions: list[Any], wait: Any) -> None:
    """A follower's fetch waits for more in all of them."""

def wait_no_more(partitions: list[Any], wait: Any) -> None: ...
