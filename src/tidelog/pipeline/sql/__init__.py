"""SQL on streams: topics are tables.  sqlglot reads it, Spark runs it."""
