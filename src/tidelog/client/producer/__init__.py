"""The producer: batches of records, delivered to partition leaders once and in order."""
