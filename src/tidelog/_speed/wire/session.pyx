"""What the gate decided for one session, kept where native code reads it with one load and one compare.

`broker.gate` decides and writes these fields; the produce shortcut only reads them, and leaves every request that they do
not cover to the gate."""

cdef class Rules:
    """Counts the changes of ACLs, roles and super users: decisions of an older revision no longer count."""


cdef class SessionState:
    def __init__(self, Rules rules not None):
        self.rules = rules
        self.revision = -1
        self.writable = set()
        self.readable = set()
        self.produce_bytes_left = 0

    def decided(self, bint anywhere):
        """The decisions kept from now on are of the present rules."""
        self.revision = self.rules.revision
        self.anywhere = anywhere
        self.writable.clear()
        self.readable.clear()

    def is_current(self):
        return self.revision == self.rules.revision

    def allow_writes(self, topic):
        """`topic` is a name, or an id as bytes."""
        self.writable.add(topic)

    def allow_reads(self, topic):
        self.readable.add(topic)

    def may_read(self, topic):
        return self.revision == self.rules.revision and (self.anywhere or topic in self.readable)

    def remembers_write(self, topic):
        return self.may_write(topic)

    cdef bint may_write(self, topic) except -1:
        if self.revision != self.rules.revision:
            return False
        return self.anywhere or topic in self.writable
