"""Streams as a library: `Pipeline("app").stream("orders")...to("totals")`, on Spark's Structured Streaming.

Every step is a plain DataFrame, which `.df` gives and `Pipeline.from_df` takes."""
