"""Native code on batches and logs: checks, appends, writers of records, compaction, codecs."""
