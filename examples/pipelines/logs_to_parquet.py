"""Log lines into Parquet files, by day and level, for whatever reads Parquet.

    tidelog pipeline run examples/pipelines/logs_to_parquet.py      # files go to ./logs, or LOGS_FOLDER

In:  logs         lines like `2026-01-31T12:00:00Z ERROR payments: card declined`
Out: LOGS_FOLDER/day=2026-01-31/level=ERROR/*.parquet
     logs-failed  lines of another kind
"""

import os
import re
from datetime import datetime

from tidelog.pipeline import Pipeline

LINE = re.compile(r"(\S+) ([A-Z]+) ([\w.-]+): (.*)")

pipeline = Pipeline("logs-to-parquet", dead_letters="logs-failed")


def parsed(record):
    match = LINE.fullmatch(record.value.decode().strip())
    if match is None:
        raise ValueError("not like: TIME LEVEL SERVICE: MESSAGE")
    at, level, service, message = match.groups()
    return {"at": datetime.fromisoformat(at), "level": level, "service": service, "message": message}


(
    pipeline.stream("logs")
    .map(parsed, schema="at timestamp, level string, service string, message string")
    .with_columns(day="to_date(at)")
    .to_table(os.path.abspath(os.environ.get("LOGS_FOLDER", "logs")), partition_by=["day", "level"])
)
