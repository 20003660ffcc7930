from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.unit.client.scripted import ScriptedBroker, read, write
from tests.unit.client.stage import Stage, staged
from tidelog import errors
from tidelog.net.requester import Requester, Unreachable, dial
from tidelog.wire import frame
from tidelog.wire.messages.api_versions import ApiVersionsRequest
from tidelog.wire.messages.fetch import FetchRequest
from tidelog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

VERSION = 9


async def connected(stage: Stage, answer: Callable[[Any], Awaitable[None]], **options: Any) -> Requester:
    """A requester whose peer is `answer`, a coroutine that gets the accepted socket."""
    host = stage.network.host("peer")
    listener = host.listen("peer", 9092)
    near = await stage.network.host("client").connect("peer", 9092)
    far, _ = listener.accept()
    listener.close()
    stage.loop.create_task(serve(far, answer))
    return Requester(near, "peer:9092", "test", request_timeout_ms=1000, **options)


async def serve(socket: Any, answer: Callable[[Any], Awaitable[None]]) -> None:
    try:
        await answer(socket)
    except ConnectionError:
        pass
    finally:
        socket.close()


async def next_question(socket: Any) -> frame.RequestHeader:
    size = int.from_bytes(await read(socket, 4), "big")
    header, _ = frame.decode_request_header(await read(socket, size))
    return header


def named(name: str, correlation: int) -> bytes:
    return response(MetadataResponse(cluster_id=name), correlation)


def response(answer: MetadataResponse, correlation: int) -> bytes:
    body = answer.encode(VERSION)
    return frame.encode_response(MetadataRequest.API_KEY, VERSION, correlation, body)


def ask(requester: Requester, **options: Any) -> asyncio.Task[MetadataResponse]:
    return asyncio.ensure_future(
        requester.ask(MetadataRequest(topics=None), MetadataResponse, version=VERSION, **options)
    )


@pytest.mark.parametrize("seed", range(5))
@staged
async def test_answers_find_their_waiters_in_whatever_order_they_come(stage: Stage, seed: int) -> None:
    async def backwards(socket: Any) -> None:
        questions = [await next_question(socket) for _ in range(3)]
        for header in reversed(questions):
            await write(socket, named(f"answer {header.correlation_id}", header.correlation_id))
        await read(socket, 1)

    requester = await connected(stage, backwards)
    answers = await asyncio.gather(*[ask(requester) for _ in range(3)])
    assert [answer.cluster_id for answer in answers] == ["answer 1", "answer 2", "answer 3"]
    requester.close()


@pytest.mark.parametrize("seed", range(5))
@staged
async def test_frames_of_any_size_are_cut_right(stage: Stage, seed: int) -> None:
    sizes = [0, 1, 65_530, 65_536, 70_000, 500_000, 3]

    async def sized(socket: Any) -> None:
        for size in sizes:
            header = await next_question(socket)
            pieces = [min(30_000, size - at) for at in range(0, size, 30_000)]
            topics = [MetadataResponseTopic(name="x" * piece) for piece in pieces]
            await write(socket, response(MetadataResponse(topics=topics), header.correlation_id))
        await read(socket, 1)

    requester = await connected(stage, sized)
    answers = await asyncio.gather(*[ask(requester, timeout_ms=600_000) for _ in sizes])
    assert [sum(len(topic.name or "") for topic in answer.topics) for answer in answers] == sizes
    requester.close()


@staged
async def test_a_silent_peer_costs_the_timeout_and_breaks_the_connection(stage: Stage) -> None:
    async def silent(socket: Any) -> None:
        await read(socket, 1_000_000)

    requester = await connected(stage, silent)
    start = stage.clock.monotonic_ms()
    first, second = ask(requester), ask(requester, timeout_ms=500)
    for waiting in (first, second):
        with pytest.raises(errors.RequestTimedOut, match="did not answer Metadata within 500 ms"):
            await waiting
    assert stage.clock.monotonic_ms() - start == 500
    with pytest.raises(errors.RequestTimedOut):
        await ask(requester)


@staged
async def test_a_peer_that_hangs_up_fails_everybody_who_waits(stage: Stage) -> None:
    async def hangs_up(socket: Any) -> None:
        await next_question(socket)

    requester = await connected(stage, hangs_up)
    waiting = [ask(requester) for _ in range(3)]
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == [errors.NetworkException] * 3
    assert len({id(result) for result in results}) == 3, "each has a traceback of its own"
    assert requester.in_flight == 0


@staged
async def test_an_answer_nobody_waits_for_any_more_is_dropped(stage: Stage) -> None:
    async def slow(socket: Any) -> None:
        first, second = await next_question(socket), await next_question(socket)
        await asyncio.sleep(0.1)
        await write(socket, named("first", first.correlation_id))
        await write(socket, named("second", second.correlation_id))
        await read(socket, 1)

    requester = await connected(stage, slow)
    given_up, waiting = ask(requester), ask(requester)
    await asyncio.sleep(0.05)
    given_up.cancel()
    assert (await waiting).cluster_id == "second"
    assert requester.in_flight == 0
    requester.close()


@staged
async def test_requests_in_flight_are_bounded_and_places_are_handed_on(stage: Stage) -> None:
    seen = []

    async def counting(socket: Any) -> None:
        while True:
            header = await next_question(socket)
            seen.append(header.correlation_id)
            await asyncio.sleep(0.01)
            await write(socket, named("", header.correlation_id))

    requester = await connected(stage, counting, in_flight_max=2)
    waiting = [ask(requester, timeout_ms=60_000) for _ in range(10)]
    while not waiting[0].done():
        assert requester.in_flight <= 2
        await asyncio.sleep(0.001)
    # Two are under way now; those that wait for a place may give up without losing it for the rest.
    waiting[4].cancel()
    waiting[5].cancel()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert sum(isinstance(result, MetadataResponse) for result in results) == 8
    assert len(seen) == 8
    requester.close()


@staged
async def test_a_place_given_to_someone_who_leaves_at_that_moment_goes_to_the_next(stage: Stage) -> None:
    async def prompt(socket: Any) -> None:
        while True:
            header = await next_question(socket)
            await write(socket, named("", header.correlation_id))

    requester = await connected(stage, prompt, in_flight_max=1)

    class Parting(MetadataResponse):
        """Read at the very moment when the next in line has been woken and has not run yet."""

        @classmethod
        def decode(cls, data: Any, version: int, at: int = 0) -> Any:
            leaving.cancel()
            return MetadataResponse.decode(data, version, at)

    first = asyncio.ensure_future(requester.ask(MetadataRequest(topics=None), Parting, version=VERSION))
    await asyncio.sleep(0)
    leaving, last = ask(requester), ask(requester)
    await asyncio.gather(first, last)
    assert leaving.cancelled()
    requester.close()


@staged
async def test_who_waits_for_a_place_hears_of_the_end(stage: Stage) -> None:
    async def hangs_up(socket: Any) -> None:
        await next_question(socket)

    requester = await connected(stage, hangs_up, in_flight_max=1)
    results = await asyncio.gather(*[ask(requester) for _ in range(3)], return_exceptions=True)
    assert [type(result) for result in results] == [errors.NetworkException] * 3


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "announced an answer of 1213486160 bytes"),
        (b"\xff\xff\xff\xff", "announced an answer of -1 bytes"),
        (b"\0\0\0\4\0\0\0\77", "an answer .63. without a request"),
        (b"\0\0\0\6\0\0\0\1\77\77", "an answer that cannot be read"),
    ],
)
@staged
async def test_bytes_that_are_no_answer_end_the_connection(stage: Stage, sent: bytes, said: str) -> None:
    async def odd(socket: Any) -> None:
        await next_question(socket)
        await write(socket, sent)
        await read(socket, 1)

    requester = await connected(stage, odd)
    with pytest.raises(errors.NetworkException, match=said):
        await ask(requester)


@staged
async def test_a_request_without_an_answer_is_done_when_it_has_left(stage: Stage) -> None:
    async def slow_reader(socket: Any) -> None:
        await asyncio.sleep(1)
        await read(socket, 900_000)

    requester = await connected(stage, slow_reader)
    large = MetadataRequest(topics=[MetadataRequestTopic(name="x" * 30_000) for _ in range(30)])
    start = stage.clock.monotonic_ms()
    await requester.tell(large, version=VERSION)
    assert stage.clock.monotonic_ms() - start >= 1000
    requester.close()


# Versions


async def dialled(stage: Stage, broker: ScriptedBroker, request_timeout_ms: int = 5000) -> Requester:
    return await dial(
        stage.network.host("client"),
        broker.host.name,
        broker.port,
        "test",
        "1.0",
        connect_timeout_ms=1000,
        request_timeout_ms=request_timeout_ms,
    )


@staged
async def test_the_highest_common_version_is_chosen(stage: Stage) -> None:
    broker = stage.broker()
    broker.served[MetadataRequest] = (0, 7)
    requester = await dialled(stage, broker)
    assert requester.version_of(MetadataRequest) == 7
    assert requester.version_of(FetchRequest) == 17
    assert requester.version_of(FetchRequest, most=12) == 12
    requester.close()


@staged
async def test_an_api_in_no_common_version_is_named(stage: Stage) -> None:
    broker = stage.broker()
    broker.served[FetchRequest] = (90, 99)
    del broker.served[MetadataRequest]
    requester = await dialled(stage, broker)
    with pytest.raises(errors.UnsupportedVersion, match="serves Fetch in versions 90-99, and this client"):
        requester.version_of(FetchRequest)
    with pytest.raises(errors.UnsupportedVersion, match="does not serve Metadata"):
        requester.version_of(MetadataRequest)
    requester.close()


@pytest.mark.parametrize("newest", [0, 2, 3])
@staged
async def test_an_older_broker_is_asked_again_in_a_version_it_knows(stage: Stage, newest: int) -> None:
    broker = stage.broker()
    broker.served[ApiVersionsRequest] = (0, newest)
    requester = await dialled(stage, broker)
    assert broker.asked == ["ApiVersions", "ApiVersions"]
    assert broker.versions == [("ApiVersions", newest)]
    assert requester.version_of(MetadataRequest) == 13
    requester.close()


# Nobody there


@staged
async def test_a_refused_connection_says_where_and_what_to_check(stage: Stage) -> None:
    broker = stage.broker()
    broker.stop()
    with pytest.raises(Unreachable) as caught:
        await dialled(stage, broker)
    expected = "cannot reach a broker at broker1:9092: connection refused; is it running?"
    assert str(caught.value) == expected
    assert caught.value.retriable
    broker.start()


@pytest.mark.parametrize("cut_after_accept", [True, False])
@staged
async def test_a_host_that_does_not_answer_costs_the_connect_timeout(
    stage: Stage, cut_after_accept: bool
) -> None:
    broker = stage.broker()

    async def never(_: Any) -> None:
        await asyncio.sleep(3600)

    if cut_after_accept:
        broker.scripts[ApiVersionsRequest.API_KEY] = never
    else:
        stage.network.cut("client", "broker1")
    start = stage.clock.monotonic_ms()
    with pytest.raises(Unreachable, match=r"no answer within 1000 ms; is the address right\?"):
        await dialled(stage, broker)
    assert stage.clock.monotonic_ms() - start == 1000


@staged
async def test_a_time_that_is_over_is_named(stage: Stage) -> None:
    broker = stage.broker()

    async def never(_: Any) -> None:
        await asyncio.sleep(3600)

    broker.scripts[ApiVersionsRequest.API_KEY] = never
    with pytest.raises(Unreachable, match="no answer within 300 ms"):
        await dialled(stage, broker, request_timeout_ms=300)


@staged
async def test_a_port_of_something_else_is_called_that(stage: Stage) -> None:
    host = stage.network.host("web")
    listener = host.listen("web", 80)

    async def web() -> None:
        while True:
            try:
                socket, _ = listener.accept()
            except BlockingIOError:
                await asyncio.sleep(0.001)
                continue
            await write(socket, b"HTTP/1.1 400 Bad Request\r\n\r\n")
            await read(socket, 4)
            socket.close()
            listener.close()
            return

    serving = asyncio.ensure_future(web())
    with pytest.raises(Unreachable, match=r"is it a Kafka broker's port\?"):
        await dial(
            stage.network.host("client"),
            "web",
            80,
            "test",
            "1.0",
            connect_timeout_ms=1000,
            request_timeout_ms=5000,
        )
    await serving


@staged
async def test_a_cancelled_dial_leaves_no_socket(stage: Stage) -> None:
    broker = stage.broker()

    async def slow(_: Any) -> None:
        await asyncio.sleep(0.5)

    broker.scripts[ApiVersionsRequest.API_KEY] = slow
    for wait in (0.0, 0.001, 0.003, 0.2):
        task = asyncio.ensure_future(dialled(stage, broker))
        await asyncio.sleep(wait)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert stage.client_sockets() == 0
