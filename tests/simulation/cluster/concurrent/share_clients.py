"""A share group over the partitions that plain producers write to."""

from __future__ import annotations

import asyncio
from random import Random

from tests.simulation.cluster.concurrent.share_members import GROUP, ShareMember, Taken
from tests.simulation.cluster.survivors import Problems
from tests.simulation.cluster.world import Cluster
from tests.simulation.play import raise_first
from tidelog.types import TopicPartition
from tidelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

GROUP_RESOURCE, SET = 32, 0
PROGRESS_S_MAX = 60
STATE = "__share_group_state"
SETTINGS = {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": "25"}


class Share:
    def __init__(self, cluster: Cluster, random: Random, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self.taken = Taken()
        self.members = [
            ShareMember(cluster, Random(random.getrandbits(64)), number, topic, self.taken)
            for number in range(random.choice((1, 2)))
        ]
        cluster.survivors.on_loss.append(self._lost)

    def _lost(self, name: TopicPartition) -> None:
        if name.topic in (STATE, self._topic):
            self.taken.lost()

    async def hire(self) -> None:
        changes = [AlterableConfig(key, SET, value) for key, value in SETTINGS.items()]
        request = IncrementalAlterConfigsRequest([AlterConfigsResource(GROUP_RESOURCE, GROUP, changes)])
        (answer,) = (await self._cluster.ask(request, IncrementalAlterConfigsResponse)).responses
        assert answer.error_code == 0, answer.error_message

    def start(self) -> list[asyncio.Task[None]]:
        return [asyncio.ensure_future(member.run()) for member in self.members]

    def progress(self) -> dict[str, int]:
        """Where the state of the group was lost, it is not expected to get on."""
        return {} if self.taken.losses else {"accepted": self.taken.accepted}

    async def check(self) -> Problems:
        """Members go on until all that was acknowledged was given out.  Where power cuts took records, the offsets of others
        may have come to stand for them, and nothing is expected."""
        tasks = self.start()
        deadline = self._cluster.clock.monotonic_ms() + PROGRESS_S_MAX * 1_000
        try:
            while waiting := self._waiting():
                if self._cluster.clock.monotonic_ms() > deadline:
                    return [("GivenOutAtLeastOnce", text) for text in waiting]
                await asyncio.sleep(0.2)
                raise_first(tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return []

    def _waiting(self) -> list[str]:
        if self.taken.losses:
            return []
        missing = {
            name: [at for at, value in history.promised.items() if self._given(name, at) != value]
            for name, history in self._cluster.partitions.items()
        }
        return [f"{name} has not given out {offsets[:10]}" for name, offsets in missing.items() if offsets]

    def _given(self, name: TopicPartition, offset: int) -> bytes | None:
        return self.taken.delivered.get(name, {}).get(offset)
