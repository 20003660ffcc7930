"""Figures of Tidelog and Apache Kafka from one driver, in one run: `python -m bench`, or `make bench`.

`load/` has one scenario per file, `micro/` the native loops one by one; docs/internals/benchmarks.md says what each
figure means.  Nothing here is a test: figures depend on the machine, and no build fails because of one.
"""
