"""The Spark data source behind `format("tidelog")`.  `pyspark_tidelog` registers it in every session."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from tidelog.pipeline.options.sink import sink_options
from tidelog.pipeline.options.source import source_options
from tidelog.pipeline.options.text import PipelineError
from tidelog.pipeline.source.row_shape import schema_of, shape_of


class TidelogSource(DataSource):
    """
    orders = spark.read.format("tidelog").option("bootstrap", "127.0.0.1:9092").option("topics", "orders").load()
    """

    @classmethod
    def name(cls) -> str:
        return "tidelog"

    def schema(self) -> StructType:
        # Spark asks for the schema before it says whether the query is a stream: options of only one kind of query are
        # checked later.
        return schema_of(source_options(self.options, streaming=None))

    def reader(self, schema: StructType) -> DataSourceReader:
        from tidelog.pipeline.source.batch_reader import TidelogReader

        options = source_options(self.options, streaming=False)
        return TidelogReader(options, shape_of(options, schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from tidelog.pipeline.source.stream_reader import TidelogStreamReader

        options = source_options(self.options, streaming=True)
        return TidelogStreamReader(options, shape_of(options, schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from tidelog.pipeline.sink.writer import TidelogWriter

        if overwrite:
            raise PipelineError("A topic cannot be overwritten: use mode('append')")
        return TidelogWriter(sink_options(self.options, streaming=False), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        from tidelog.pipeline.sink.writer import TidelogStreamWriter

        if overwrite:
            raise PipelineError("A topic cannot be overwritten: use outputMode('append')")
        return TidelogStreamWriter(sink_options(self.options, streaming=True), schema)
