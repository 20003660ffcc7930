"""What the requests of `test_versions` may refer to."""

from __future__ import annotations

from typing import Any, NamedTuple


class Scene(NamedTuple):
    """A topic that holds a record, and a name that is not taken."""

    topic: str
    topic_id: Any
    fresh: str
    data: str
    version: int

    @property
    def both(self) -> dict[str, Any]:
        """The topic by name or id, whichever the version wants."""
        return {"name": self.topic, "topic": self.topic, "topic_id": self.topic_id}
