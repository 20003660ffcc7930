"""docs/guide/migrating.md: what another client's program prints, ours prints too."""

from __future__ import annotations

import pytest

from tests.unit.client.guide import Printed, blocks, run_example
from tidelog import Admin, NewTopic, Producer
from tidelog.testing import broker

BLOCKS = blocks("migrating.md")
PAIRS = list(zip(BLOCKS[::2], BLOCKS[1::2], strict=True))


def printed(code: str) -> Printed:
    """On a broker of its own; where it reads, there is something to read."""
    said = Printed()
    with broker({"group.initial.rebalance.delay.ms": "0"}) as running:
        address = running.bootstrap_servers
        with Admin(bootstrap_servers=address) as admin:
            admin.create_topics([NewTopic("orders", partitions=1), NewTopic("bills", partitions=1)])
        if "Consumer" in code:
            with Producer(bootstrap_servers=address) as producer:
                for number in range(3):
                    producer.send("orders", b"%d pears" % number, key=b"alice")
        run_example(code, running, {"print": said})
    return said


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("theirs", "ours"), PAIRS, ids=[one[0] for one, _ in PAIRS])
def test_both_print_the_same(theirs: tuple[str, str], ours: tuple[str, str]) -> None:
    heading, code = ours
    assert theirs[0] == heading and "tidelog" in code and "tidelog" not in theirs[1]
    said = printed(theirs[1])
    assert said and printed(code) == said
