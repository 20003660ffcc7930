"""Click analytics: visits (sessions that end after half an hour of silence) and views of pages by the minute.

    tidelog pipeline run examples/pipelines/click_analytics.py

In:  clicks   {"user": "ann", "page": "/pears", "at": "2026-01-31T12:00:00Z"}
Out: visits   one record for each visit, when it is over: pages, first and last page, how long
     views    one record for each page and minute, when the minute is over
     clicks-failed   what is no click
"""

from tidelog.pipeline import Pipeline

pipeline = Pipeline("click-analytics", dead_letters="clicks-failed")

clicks = pipeline.stream("clicks", schema="user string, page string, at timestamp").watermark(
    "at", "5 minutes"
)

(
    clicks.key_by("user")
    .session("30 minutes")
    .aggregate(
        pages="count(*)",
        first="min_by(page, at)",
        last="max_by(page, at)",
        seconds="unix_timestamp(max(at)) - unix_timestamp(min(at))",
    )
    .to("visits")
)

clicks.key_by("page").tumbling("1 minute").count("views").suppress().to("views")
