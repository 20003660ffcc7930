"""Reads the state of a query from its last checkpoint, with Spark's state reader."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from tidelog.pipeline.options.text import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def state_of(
    spark: SparkSession, checkpoint: str, store: str | None, operator: int, batch: int | None
) -> DataFrame:
    """The keys and values as columns.  `batch`: the number of an earlier batch."""
    if "://" not in checkpoint and not os.path.isdir(os.path.join(checkpoint, "state")):
        raise PipelineError(f"there is no state in {checkpoint}: the output keeps none, or has not run yet")
    reader = spark.read.format("statestore").option("operatorId", operator)
    if store is not None:
        reader = reader.option("stateVarName", store)
    if batch is not None:
        reader = reader.option("batchId", batch)
    try:
        frame = reader.load(checkpoint)
    except Exception as problem:
        reason = str(problem).split("\n")[0]
        raise PipelineError(f"the state in {checkpoint} cannot be read: {reason}") from None
    columns: dict[str, Column] = {}
    for field in frame.schema.fields:
        if field.name == "partition_id":
            continue
        if not isinstance(field.dataType, StructType):
            columns[field.name] = F.col(field.name)
            continue
        for name in field.dataType.names:
            columns.setdefault(name, F.col(f"{field.name}.`{name}`").alias(name))
    return frame.select(*columns.values())
