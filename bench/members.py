"""Members of many classic groups on a few connections: they join wave by wave, and then any connection may speak for
any of them.  Frames are encoded before they are sent, so that making load costs little."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bench.admin import CLIENT_ID, connect, receive
from bench.bulk import Load
from tidelog import errors
from tidelog.wire.frame import RequestHeader, decode_response_header, encode_request
from tidelog.wire.message import Message
from tidelog.wire.messages.heartbeat import HeartbeatRequest
from tidelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

JOIN_VERSION = 3  # the last one that needs no second request for a member id
SYNC_VERSION = 3
HEARTBEAT_VERSION = 4
COMMIT_VERSION = 9
SESSION_MS = 1_800_000
REBALANCE_MS = 60_000
ANSWER_BYTES_MAX = 4096


class Member(NamedTuple):
    group: str
    id: str
    generation: int


def frame(request: Message, version: int, number: int = 0) -> bytes:
    return encode_request(RequestHeader(request.API_KEY, version, number, CLIENT_ID), request.encode(version))


def join(lanes: Sequence[socket.socket], groups: Sequence[str], each: int) -> list[Member]:
    """`each` members in every group; there is a lane for each of them."""
    places = [(group, lanes[at * each + number]) for at, group in enumerate(groups) for number in range(each)]
    for group, lane in places:
        protocols = [JoinGroupRequestProtocol("range", b"data")]
        request = JoinGroupRequest(group, SESSION_MS, REBALANCE_MS, "", None, "bench", protocols)
        lane.sendall(frame(request, JOIN_VERSION))
    members, leaders = [], []
    for group, lane in places:
        answer = _answer(lane, JoinGroupResponse, JOIN_VERSION)
        members.append(Member(group, answer.member_id, answer.generation_id))
        leaders.append(answer.leader == answer.member_id)
    for leading in (True, False):
        for member, (_, lane), leads in zip(members, places, leaders, strict=True):
            if leads == leading:
                request = SyncGroupRequest(member.group, member.generation, member.id)
                lane.sendall(frame(request, SYNC_VERSION))
    for _, lane in places:
        _answer(lane, SyncGroupResponse, SYNC_VERSION)
    return members


def _answer(lane: socket.socket, response: type, version: int) -> object:
    size = int.from_bytes(receive(lane, 4), "big")
    data = receive(lane, size)
    _, at = decode_response_header(response.API_KEY, version, data)
    answer = response.decode(data, version, at)
    if answer.error_code:
        raise errors.by_code(answer.error_code)("a member was refused")
    return answer


def heartbeats(members: Sequence[Member]) -> list[bytes]:
    return [
        frame(HeartbeatRequest(member.group, member.generation, member.id), HEARTBEAT_VERSION)
        for member in members
    ]


def commits(members: Sequence[Member], topic: str, partitions: int) -> list[bytes]:
    """One partition each, all different offsets."""
    made = []
    for number, member in enumerate(members):
        part = OffsetCommitRequestPartition(number % partitions, number)
        request = OffsetCommitRequest(
            member.group,
            member.generation,
            member.id,
            topics=[OffsetCommitRequestTopic(topic, partitions=[part])],
        )
        made.append(frame(request, COMMIT_VERSION))
    return made


def pace(lanes: Sequence[socket.socket], frames: Sequence[bytes], seconds: float) -> Load:
    """Sends the frames in turn over the lanes, evenly over the time, whether answers have come or not."""
    poll = select.epoll()
    by_descriptor = {lane.fileno(): lane for lane in lanes}
    for descriptor in by_descriptor:
        poll.register(descriptor, select.EPOLLIN)
    begin = time.perf_counter()
    try:
        for number, data in enumerate(frames):
            lanes[number % len(lanes)].sendall(data)
            due = begin + seconds * (number + 1) / len(frames)
            while True:
                wait = due - time.perf_counter()
                for descriptor, _ in poll.poll(max(wait, 0)):
                    by_descriptor[descriptor].recv(ANSWER_BYTES_MAX)
                if wait <= 0:
                    break
    finally:
        poll.close()
    return Load(len(frames), time.perf_counter() - begin)


def race(lanes: Sequence[socket.socket], frames: Sequence[bytes]) -> Load:
    """One request under way on each lane, the next when the answer is there."""
    poll = select.epoll()
    by_descriptor = {lane.fileno(): lane for lane in lanes}
    rest: Iterator[bytes] = iter(frames)
    begin = time.perf_counter()
    waiting = 0
    for lane in lanes:
        poll.register(lane.fileno(), select.EPOLLIN)
        lane.sendall(next(rest))
        waiting += 1
    try:
        while waiting:
            for descriptor, _ in poll.poll():
                lane = by_descriptor[descriptor]
                answer = lane.recv(ANSWER_BYTES_MAX)
                # The error code of the only partition is followed by tags: of the partition, topic and answer.
                if answer[-5:-3] != b"\x00\x00":
                    raise errors.by_code(int.from_bytes(answer[-5:-3], "big", signed=True))(
                        "a commit was refused"
                    )
                after = next(rest, None)
                if after is None:
                    waiting -= 1
                else:
                    lane.sendall(after)
    finally:
        poll.close()
    return Load(len(frames), time.perf_counter() - begin)


def open_lanes(port: int, count: int) -> list[socket.socket]:
    return [connect(port) for _ in range(count)]
