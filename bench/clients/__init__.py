"""Python's Kafka clients side by side, against the same Tidelog broker: `python -m bench.clients`."""
