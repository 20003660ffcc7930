"""Fraud detection: rules over what each card has done before.

    tidelog pipeline run examples/pipelines/fraud_detection.py

In:  payments  {"card": "4711", "amount": 12.5, "country": "NL", "at": "2026-01-31T12:00:00Z"}
Out: alerts    {"card": "4711", "rule": "travel", "amount": 99.0, "at": ...}

The rules: a payment ten times the card's average after at least five; another country within an hour of the last
payment; more than five payments in a minute.  State is kept for each card in RocksDB and forgotten with time.
"""

from datetime import timedelta

from tidelog.pipeline import List, Pipeline, Value

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)

pipeline = Pipeline("fraud-detection", dead_letters="payments-failed")


def rules(card, payments, context):
    usual, last, recent = context.stores.usual, context.stores.last, context.stores.recent
    for payment in sorted(payments, key=lambda one: one.at):

        def alert(rule, payment=payment):
            return {"card": card, "rule": rule, "amount": payment.amount, "at": payment.at}

        so_far = usual.get() or {"count": 0, "total": 0.0}
        if so_far["count"] >= 5 and payment.amount > 10 * so_far["total"] / so_far["count"]:
            yield alert("amount")
        usual.set({"count": so_far["count"] + 1, "total": so_far["total"] + payment.amount})

        before = last.get()
        if before and before.country != payment.country and payment.at - before.at < HOUR:
            yield alert("travel")
        last.set({"country": payment.country, "at": payment.at})

        minute = [at for at in recent if payment.at - at < MINUTE] + [payment.at]
        if len(minute) > 5:
            yield alert("burst")
        recent.set(minute)


(
    pipeline.stream("payments", schema="card string, amount double, country string, at timestamp")
    .key_by("card")
    .process(
        rules,
        schema="card string, rule string, amount double, at timestamp",
        stores={
            "usual": Value("count int, total double", ttl="90 days"),
            "last": Value("country string, at timestamp", ttl="1 day"),
            "recent": List("timestamp", ttl="1 day"),
        },
    )
    .to("alerts")
)
