"""Produce requests for topics that take only records with a registered schema.

Mostly this broker has every schema id in its cache, and the request continues as usual.  Otherwise it asks the registry.
A batch with a record whose schema is missing or not registered is refused as a whole with INVALID_RECORD, and the answer
names the records.  Null keys and values have no schema and pass.  `produce_opened` has opened the batches."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog import errors
from tidelog.broker.handlers.produce.open_batch import NamedSchemas
from tidelog.broker.handlers.produce.produce import ProduceInFlight
from tidelog.registry.validation import SchemaIdCheck
from tidelog.replication.acceptance import RECORDS_TOLD_MAX
from tidelog.replication.partition import HostedPartition

IDS_MAX = 100  # that one batch may bring and nobody has asked for yet


class UnregisteredSchemas(errors.InvalidRecord):
    """`records` says which ones of the batch, and why, for the answer to the producer."""

    def __init__(self, message: str, records: list[tuple[int, str]]) -> None:
        super().__init__(message)
        self.records = records


def schemas_known(
    request: ProduceInFlight, partition: HostedPartition, schemas: Sequence[NamedSchemas]
) -> bool:
    """True if the request needs no lookup in the registry, and no record is refused."""
    validation = request.services.registry.validation
    return all(
        not named.bare and all(validation.knows(_wanted(partition, named, number)) for number in named.ids)
        for named in schemas
    )


async def schema_problem(
    request: ProduceInFlight, partition: HostedPartition, schemas: Sequence[NamedSchemas]
) -> errors.TidelogError | None:
    validation = request.services.registry.validation
    refused = [
        (place, f"its {_side(named)} does not begin with a schema id")
        for named in schemas
        for place in named.bare
    ]
    unknown = [
        (wanted, named, number)
        for named in schemas
        for number in named.ids
        if not validation.knows(wanted := _wanted(partition, named, number))
    ]
    if len(unknown) > IDS_MAX:
        return errors.InvalidRecord(f"{len(unknown)} unknown schema ids in one batch are too many to ask for")
    for wanted, named, number in unknown:
        try:
            if await validation.registered(wanted):
                continue
        except errors.TidelogError as problem:
            return problem
        why = (
            f"schema id {number} of its {_side(named)} is not registered for topic {wanted.topic!r} "
            f"({wanted.strategy})"
        )
        refused += [(place, why) for place in named.ids[number]]
    if not refused:
        return None
    refused = sorted(refused)[:RECORDS_TOLD_MAX]
    first, why = refused[0]
    return UnregisteredSchemas(f"record {first} of the batch is refused: {why}", refused)


def _wanted(partition: HostedPartition, named: NamedSchemas, number: int) -> SchemaIdCheck:
    config = partition.log.config
    strategy = (
        config.confluent_key_subject_name_strategy
        if named.of_keys
        else config.confluent_value_subject_name_strategy
    )
    return SchemaIdCheck(partition.topic, named.of_keys, strategy.rpartition(".")[2], number)


def _side(named: NamedSchemas) -> str:
    return "key" if named.of_keys else "value"
