"""An answer to Metadata made in pieces has the bytes of the same answer made in one go."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from tidelog.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.wire.metadata_pieces import MetadataPieces

sizes = st.lists(st.integers(0, 200), max_size=5)


@given(sizes, st.integers(0, 13), st.booleans())
def test_pieces_are_the_whole(counts: list[int], version: int, told: bool) -> None:
    ids = version >= 10
    groups = [
        [
            MetadataResponseTopic(
                name=f"topic-{group}-{number}",
                topic_id=UUID(int=number) if ids else UUID(int=0),
                partitions=[MetadataResponsePartition(partition_index=0, leader_id=1, replica_nodes=[1])],
            )
            for number in range(count)
        ]
        for group, count in enumerate(counts)
    ]
    around = MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=1, host="broker.example", port=9092)],
        cluster_id="cluster" if version >= 2 else None,
        controller_id=1 if version >= 1 else -1,
        topics=[topic for group in groups for topic in group],
    )
    if told and 8 <= version <= 10:
        around.cluster_authorized_operations = 7
    whole = bytes(around.encode(version))
    pieces = MetadataPieces(version)
    for group in groups:
        pieces.add(group)
    assert b"".join(pieces.finish(around)) == whole
