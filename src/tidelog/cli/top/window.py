"""The last seconds of a cluster: which frame the newest is compared with, and how lags went.  Pure.

Rates are over some ten seconds, not from look to look: consumers commit every few seconds, and figures that jump
between nothing and a lot tell a person little.  Few frames are kept, however often one looks."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from tidelog.cli.top.frame import Frame
from tidelog.cli.top.rows import (
    BrokerRow,
    GroupRow,
    TopicRow,
    broker_rows,
    group_rows,
    lag_of,
    topic_rows,
)

WINDOW_MS = 10_000
FRAMES_MAX = 6
LAGS_MAX = 30


@dataclass(frozen=True)
class Picture:
    """All figures of one time."""

    frame: Frame
    topics: list[TopicRow]
    groups: list[GroupRow]
    brokers: list[BrokerRow]


class FrameWindow:
    def __init__(self) -> None:
        self._frames: deque[Frame] = deque()
        self._lags: dict[str, deque[int]] = {}

    def add(self, frame: Frame) -> Picture:
        # The first that is kept is the one to compare with: as old as the window, or the one before.
        while len(self._frames) > 1 and frame.at_ms - self._frames[1].at_ms >= WINDOW_MS:
            self._frames.popleft()
        before = self._frames[0] if self._frames else None
        if not self._frames or frame.at_ms - self._frames[-1].at_ms >= WINDOW_MS / FRAMES_MAX:
            self._frames.append(frame)
        lags = self._with_lags(frame)
        return Picture(
            frame, topic_rows(before, frame), group_rows(before, frame, lags), broker_rows(before, frame)
        )

    def _with_lags(self, frame: Frame) -> dict[str, tuple[int, ...]]:
        self._lags = {name: line for name, line in self._lags.items() if name in frame.groups}
        for name, (group, _, _) in frame.groups.items():
            lag = lag_of(group, frame)
            if lag is not None:
                self._lags.setdefault(name, deque(maxlen=LAGS_MAX)).append(lag)
        return {name: tuple(line) for name, line in self._lags.items()}
