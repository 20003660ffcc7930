"""Orders with the customers who placed them: a stream joined with a table that changes.

    tidelog topics create customers --config cleanup.policy=compact
    tidelog pipeline run examples/pipelines/orders_with_customers.py

In:  customers  key: the customer's id, value {"name": "Ann", "city": "Delft"}; a record without a value deletes
     orders     {"id": 1, "customer": "c1", "amount": 12.5}
Out: orders-with-customers, keyed by customer; orders of unknown customers have null for the name and city
"""

from tidelog.pipeline import Pipeline

pipeline = Pipeline("orders-with-customers")

customers = pipeline.table("customers", key="customer", schema="name string, city string")
orders = pipeline.stream("orders", schema="id bigint, customer string, amount double")

orders.key_by("customer").join(customers, how="left").to("orders-with-customers")
