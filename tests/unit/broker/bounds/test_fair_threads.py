from __future__ import annotations

import asyncio

import pytest

from tidelog.broker.bounds.fair_threads import FairQueue, FairThreads, ThreadsCrowded


async def entered(queue: FairQueue, key: str, order: list[str]) -> None:
    await queue.enter(key)
    order.append(key)


async def started(*tasks: asyncio.Task[None]) -> None:
    for _ in range(len(tasks) + 3):
        await asyncio.sleep(0)


async def test_who_asks_once_waits_for_one_turn_of_who_asks_often() -> None:
    queue, order = FairQueue(1, lambda: 100), list[str]()
    await queue.enter("first")
    tasks = [asyncio.create_task(entered(queue, "often", order)) for _ in range(10)]
    await started(*tasks)
    tasks.append(asyncio.create_task(entered(queue, "once", order)))
    await started(*tasks)
    for _ in range(11):
        queue.leave()
        await started()
    await asyncio.gather(*tasks)
    assert order.index("once") == 1
    assert len(order) == 11
    queue.leave()
    await asyncio.wait_for(queue.enter("somebody"), 1)


async def test_a_full_queue_sends_away_the_newest_of_the_address_with_the_most() -> None:
    queue, order = FairQueue(1, lambda: 5), list[str]()
    await queue.enter("first")
    tasks = [asyncio.create_task(entered(queue, "often", order)) for _ in range(5)]
    await started(*tasks)
    with pytest.raises(ThreadsCrowded):
        await queue.enter("often")
    once = asyncio.create_task(entered(queue, "once", order))
    await started(*tasks)
    assert queue.waiting == 5
    with pytest.raises(ThreadsCrowded):
        await tasks[-1]
    for _ in range(6):
        queue.leave()
        await started()
    await asyncio.gather(once, *tasks[:-1])
    assert queue.waiting == 0


async def test_who_gives_up_leaves_the_turn_to_others() -> None:
    queue, order = FairQueue(1, lambda: 5), list[str]()
    await queue.enter("first")
    waiting = [asyncio.create_task(entered(queue, key, order)) for key in ("a", "b", "c")]
    await started(*waiting)
    waiting[1].cancel()
    await started()
    queue.leave()
    waiting[0].cancel()  # in the moment in which its turn has come
    await started(*waiting)
    assert order == ["c"]
    assert queue.waiting == 0


async def test_work_is_done_on_another_thread_and_its_problem_is_raised() -> None:
    import threading

    threads = FairThreads("test", lambda: 5, 1)
    assert await threads.run("a", threading.get_ident) != threading.get_ident()
    with pytest.raises(ValueError, match="invalid literal"):
        await threads.run("a", int, "x")
    assert await threads.run("a", int, "7") == 7
