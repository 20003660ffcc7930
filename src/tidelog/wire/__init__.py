"""The Kafka protocol as bytes: messages, headers, and the table of APIs.  Nothing here does I/O.

Message modules are large and many: import the one you need, `from tidelog.wire.messages.metadata import ...`.
"""
