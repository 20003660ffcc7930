"""Produce (api 0), versions 3-13; decoded and encoded natively.

Order: batches are appended before the first await, so requests pipelined on one connection land in the order they
were sent.  Only the wait for replicas, or for a topic's own sync, happens after it.  Where a batch has to be opened first
and is large, `produce_opened` holds back the requests behind it.  Versions below 3 (message formats
0 and 1) are not served.  With acks=0 there is no answer; a client whose batch failed finds its connection closed.
Batches in transactions take a turn through `produce_in_transaction` first."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple, Protocol
from uuid import UUID

from tidelog import errors
from tidelog._speed.log.batch import ATTRIBUTES_AT, header_at
from tidelog._speed.wire.delayed_produce import DelayedProduce
from tidelog._speed.wire.produce_frames import ProduceAnswer, ProduceAsk, decode_produce, encode_produce
from tidelog._speed.wire.shortcut import all_plain
from tidelog.broker.leaders import endpoints_of
from tidelog.broker.services import Services
from tidelog.broker.session import Session
from tidelog.metadata.topics.names import INTERNAL
from tidelog.replication.acceptance import MAGIC, Accepted
from tidelog.replication.commit_status import Appended, is_committed, moved, too_few, when_committed
from tidelog.replication.partition import Enlisted, HostedPartition
from tidelog.types import Offset
from tidelog.wire.acls import AclOperation, AclResourceType

PRODUCE = 0
ACKS_ALL = -1
ADMIN_CLIENT = "__admin_client"  # the one client that Kafka lets write to internal topics
_ZSTD, _ZSTD_FROM = 4, 7
_TRANSACTIONAL = 0x10
CODEC_AT = ATTRIBUTES_AT + 1
_NOT_YET = (errors.RequestTimedOut, errors.NotEnoughReplicasAfterAppend)  # what may still come right
Key = tuple[str | bytes, int]  # topic name or id, partition
_NOT_ENLISTED: Mapping[Key, Enlisted | errors.TidelogError] = {}
_NOTHING = memoryview(b"")
# By the place of a batch in its frame: what `accept` said of it.
Opened = Mapping[int, Accepted | errors.TidelogError]
_NOT_OPENED: Opened = {}
Answers = list[tuple[str | bytes, list[ProduceAnswer]]]
# Where the answer of a batch stands, and what it waits for.
Wait = tuple[list[ProduceAnswer], int, HostedPartition, Appended]


class ProduceCaller(Protocol):
    """A connection; between `pause` and `resume` no further request of it is handed on."""

    session: Session

    def pause(self) -> None: ...
    def resume(self) -> None: ...


def produce(
    frame: memoryview,
    at: int,
    version: int,
    correlation_id: int,
    caller: ProduceCaller,
    services: Services,
    throttle_ms: int = 0,
) -> bytes | asyncio.Future[bytes] | asyncio.Future[bytes | None] | None:
    """`throttle_ms`: for so long the connection is muted."""
    ask = decode_produce(frame, at, version)
    request = ProduceInFlight(
        frame, ask, version, correlation_id, caller.session, services, _NOT_OPENED, throttle_ms
    )
    if not -1 <= ask.acks <= 1:
        return _refused(request, errors.InvalidRequiredAcks())
    if not all_plain(ask.topics, services.partitions.held):
        from tidelog.broker.handlers.produce.decompressing import produce_opened

        return produce_opened(request, caller)
    return produce_unheld(request)


def produce_unheld(
    request: ProduceInFlight,
) -> bytes | asyncio.Future[bytes] | asyncio.Future[bytes | None] | None:
    """All that had to be opened is."""
    ask = request.ask
    if ask.transactional_id is not None:
        try:
            request.services.gate.check(
                request.session, AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, ask.transactional_id
            )
        except errors.TidelogError as refusal:
            return _refused(request, refusal)
        from tidelog.broker.handlers.produce.in_transaction import produce_in_transaction

        return produce_in_transaction(request)
    if ask.attributes & _TRANSACTIONAL and _has_transactional(request.frame, ask.topics):
        problem = errors.TransactionalIdAuthorizationFailed("batches in transactions need a transactional id")
        if ask.acks == 0:
            raise errors.InvalidRequest("a batch sent with acks=0 could not be appended")
        return _refused(request, problem)
    return append_all(request, _NOT_ENLISTED)


def _has_transactional(
    frame: memoryview, topics: list[tuple[str | bytes, list[tuple[int, int, int]]]]
) -> bool:
    for _, parts in topics:
        for _, start, size in parts:
            if size > CODEC_AT and frame[start + CODEC_AT] & _TRANSACTIONAL:
                header = header_at(frame[start : start + size])
                if header is not None and header.magic == MAGIC and header.size <= size:
                    return True
    return False


class ProduceInFlight(NamedTuple):
    frame: memoryview
    ask: ProduceAsk
    version: int
    correlation_id: int
    session: Session
    services: Services
    opened: Opened = _NOT_OPENED
    throttle_ms: int = 0

    def encoded(self, answers: Answers) -> bytes:
        return _encoded(
            self.version,
            self.correlation_id,
            answers,
            self.services,
            self.session.listener,
            self.throttle_ms,
        )


def append_all(
    request: ProduceInFlight, enlisted: Mapping[Key, Enlisted | errors.TidelogError]
) -> bytes | asyncio.Future[bytes] | None:
    """`enlisted` has what the coordinator of a transaction said of its partitions."""
    frame, ask, version, _, session, services, opened, _ = request
    if ask.acks == 1 and not services.partitions.lease_proven():
        # Another broker may lead by now, and what this one alone has would be cut: the in-sync set has to confirm it.
        ask.acks = ACKS_ALL
    acks = ask.acks
    now_ms = services.clock.now_ms()
    led_here = services.partitions.led_here
    answers: Answers = []
    waits: list[Wait] = []
    at_once: list[Wait] = []
    for topic, parts in ask.topics:
        row: list[ProduceAnswer] = []
        for index, start, size in parts:
            try:
                _check_write(request, topic)
                partition = led_here(topic, index)
                if partition.topic in INTERNAL and session.client_id != ADMIN_CLIENT:
                    raise errors.InvalidTopicException(f"{partition.topic} is written by brokers alone")
                if version < _ZSTD_FROM and size > CODEC_AT and frame[start + CODEC_AT] & 7 == _ZSTD:
                    raise errors.UnsupportedCompressionType(f"zstd needs version {_ZSTD_FROM} of Produce")
                enlistment = enlisted.get((topic, index)) if enlisted else None
                if isinstance(enlistment, errors.TidelogError):
                    raise enlistment
                data = frame[start : start + max(size, 0)]
                verdict = opened.get(start) if opened else None
                appended = partition.append(data, now_ms, acks == ACKS_ALL, enlistment, verdict)
            except errors.TidelogError as problem:
                data, now = frame[start : start + max(size, 0)], services.clock.monotonic_ms()
                refusal = session.refusals.answer(topic, index, data, problem, now)
                row.append(_failed(services, session.client_id, topic, index, refusal))
            else:
                if appended.durable is not None or (
                    acks == ACKS_ALL and not is_committed(partition, appended)
                ):
                    waits.append((row, len(row), partition, appended))
                elif acks == 1:
                    at_once.append((row, len(row), partition, appended))
                row.append(
                    ProduceAnswer(index, 0, appended.base, appended.append_time_ms, partition.log.start)
                )
        answers.append((topic, row))
    if acks == 0:
        if any(answer.error for _, row in answers for answer in row):
            raise errors.InvalidRequest("a batch sent with acks=0 could not be appended")
        return None
    if waits:
        # An answer that waits for a sync speaks for all its batches when it is given.
        return Acknowledgement(request, answers, waits + at_once).answer
    return request.encoded(answers)


def _check_write(request: ProduceInFlight, topic: str | bytes) -> None:
    """Before the topic is looked for: nobody learns here which topics there are."""
    if request.session.remembers_write(topic):
        return
    name, topic_id = topic, None
    if isinstance(topic, bytes):
        topic_image = request.services.image().topic_by_id(UUID(bytes=topic))
        if topic_image is None:
            return  # refused as an id that stands for nothing
        name, topic_id = topic_image.name, topic
    assert isinstance(name, str)
    if not request.services.gate.may_write(request.session, name, topic_id):
        tenant = request.services.gate.tenant(request.session)
        if topic_id is not None and tenant is not None and not tenant.owns(name):
            raise errors.UnknownTopicId
        if request.services.gate.is_full(name) and request.services.gate.allows(
            request.session, AclOperation.WRITE, AclResourceType.TOPIC, name
        ):
            raise errors.PolicyViolation(
                f"the tenant of topic '{name}' has reached its limit stored_bytes_max: delete records or topics, "
                "shorten their retention, or ask the operator for a higher limit"
            )
        raise errors.TopicAuthorizationFailed(f"{request.session.principal} may not write to topic '{name}'")


def _encoded(
    version: int,
    correlation_id: int,
    answers: Answers,
    services: Services,
    listener: str,
    throttle_ms: int = 0,
) -> bytes:
    leaders = {answer.leader[0] for _, row in answers for answer in row if answer.leader is not None}
    endpoints = endpoints_of(sorted(leaders), services, listener) if leaders else ()
    return encode_produce(version, correlation_id, answers, throttle_ms, endpoints)


class Acknowledgement:
    """One answer that waits for replicas or syncs: all of its appends together, within one time-out.

    Plain callbacks instead of a task: a broker that syncs every append spends its time here."""

    __slots__ = ("_acks", "_answers", "_left", "_request", "_timer", "_waits", "answer")

    def __init__(self, request: ProduceInFlight, answers: Answers, waits: list[Wait]) -> None:
        loop = asyncio.get_running_loop()
        # The frame is not kept for as long as this waits.
        self._request = request._replace(frame=_NOTHING, opened=_NOT_OPENED)
        self._acks = request.ask.acks
        self._answers = answers
        self._waits = waits
        self._left = len(waits)
        self.answer: asyncio.Future[bytes] = loop.create_future()
        self._timer = loop.call_later(max(request.ask.timeout_ms, 0) / 1000, self._finish)
        for _, _, partition, appended in waits:
            if appended.durable is not None:
                appended.durable.add_done_callback(lambda _, p=partition, a=appended: self._synced(p, a))  # type: ignore[misc]
            else:
                self._synced(partition, appended)

    def _synced(self, partition: HostedPartition, appended: Appended) -> None:
        durable = appended.durable
        failed = durable is not None and (durable.cancelled() or durable.exception() is not None)
        if not failed and self._acks == ACKS_ALL and not is_committed(partition, appended):
            when_committed(partition, appended).add_done_callback(self._settled)
        else:
            self._settled(None)

    def _settled(self, waited: asyncio.Future[None] | None) -> None:
        if waited is not None and not waited.cancelled():
            waited.exception()  # told by `_unsettled`; asyncio wants it looked at
        self._left -= 1
        if self._left == 0:
            if self._acks != ACKS_ALL and not self.answer.done() and not self._leads_for_certain():
                self._wait_for_all()
            else:
                self._finish()

    def _leads_for_certain(self) -> bool:
        services = self._request.services
        return all(
            _leads_for_certain(services, partition, appended) for _, _, partition, appended in self._waits
        )

    def _wait_for_all(self) -> None:
        """The syncs took longer than the lease of this broker: the in-sync set has to confirm the records."""
        self._acks = ACKS_ALL
        self._left = len(self._waits)
        for _, _, partition, appended in self._waits:
            self._synced(partition, appended)

    def _finish(self) -> None:
        self._timer.cancel()
        if self.answer.done():
            return
        request = self._request
        for row, place, partition, appended in self._waits:
            problem = _unsettled(request.services, partition, appended, self._acks)
            if problem is not None:
                row[place] = _failed(
                    request.services, request.session.client_id, partition.topic, partition.index, problem
                )
        self.answer.set_result(request.encoded(self._answers))


def settle_delayed(services: Services, answer: DelayedProduce, is_over: bool) -> None:
    """For the shortcut's answers that cannot be acknowledged as they are: their sync failed, another broker may lead, or
    their time has passed.  `is_over`: it is answered now, whatever there is to say."""
    partition = answer.partition
    appended = Appended(Offset(answer.base), Offset(answer.end), -1, answer.durable, answer.epoch)
    problem = _unsettled(services, partition, appended, answer.acks)
    if problem is None:
        answer.acknowledge()
    elif isinstance(problem, _NOT_YET) and not is_over:
        answer.wait_for_all()
    else:
        row = [_failed(services, answer.client_id, answer.topic, answer.index, problem)]
        answers: Answers = [(answer.topic, row)]
        version, correlation_id, listener = answer.version, answer.correlation_id, answer.session.listener
        answer.finish(_encoded(version, correlation_id, answers, services, listener))


def _leads_for_certain(services: Services, partition: HostedPartition, appended: Appended) -> bool:
    """No other broker can have been elected since, which would cut what this one alone has."""
    return not moved(partition, appended) and (partition.state.is_alone or services.partitions.lease_proven())


def _unsettled(
    services: Services, partition: HostedPartition, appended: Appended, acks: int
) -> errors.TidelogError | None:
    """Why this append cannot be acknowledged; None when it can."""
    durable = appended.durable
    if durable is not None:
        if not durable.done():
            return errors.RequestTimedOut(f"{partition.name}: not synced to disk in time")
        failure = None if durable.cancelled() else durable.exception()
        if durable.cancelled() or failure is not None:
            if isinstance(failure, errors.TidelogError):
                return failure
            return errors.KafkaStorageError(f"{partition.name}: {failure or 'closed before its sync'}")
        if partition.log.end < appended.end:
            # A repeated batch waits for the sync of its first copy, and that one failed.
            return errors.KafkaStorageError(f"{partition.name}: the batch could not be written")
    led_alone = acks != ACKS_ALL and _leads_for_certain(services, partition, appended)
    if not led_alone and not is_committed(partition, appended):
        if moved(partition, appended):
            return errors.NotLeaderOrFollower(f"{partition.name} moved before its replicas had the records")
        if not partition.state.enough_members:
            return errors.NotEnoughReplicasAfterAppend(f"{too_few(partition)}; the records are kept")
        return errors.RequestTimedOut(f"{partition.name}: not on all in-sync replicas in time")
    return None


def _failed(
    services: Services, client_id: str | None, topic: str | bytes, index: int, problem: errors.TidelogError
) -> ProduceAnswer:
    leader = None
    if isinstance(problem, errors.OutOfOrderSequenceNumber) and not services.partitions.lease_proven():
        # Producers give up for good when they are told of a gap.  A broker that another one may have replaced does not know
        # what that one took.
        problem = _perhaps_deposed(problem)
    if isinstance(problem, errors.NotLeaderOrFollower):
        leader = services.partitions.leader_of(topic, index)
    services.counters.failed(PRODUCE, problem.code, client_id)
    bad_records = getattr(problem, "records", ())
    return ProduceAnswer(index, problem.code, message=str(problem), leader=leader, bad_records=bad_records)


def _perhaps_deposed(problem: errors.TidelogError) -> errors.TidelogError:
    return errors.NotLeaderOrFollower(
        f"this broker cannot prove its lease, and another one may lead the partition: look for the leader and try "
        f"again ({problem})"
    )


def _refused(request: ProduceInFlight, problem: errors.TidelogError) -> bytes:
    answers = [
        (
            topic,
            [
                _failed(request.services, request.session.client_id, topic, index, problem)
                for index, _, _ in parts
            ],
        )
        for topic, parts in request.ask.topics
    ]
    return request.encoded(answers)
