"""What the gate decided for one session, where native code reads it."""

class Rules:
    """Counts the changes of ACLs, roles and super users: decisions of an older revision no longer count."""

    revision: int

class SessionState:
    admitted: bool
    """Who asks is known, as far as the listener wants to know it."""
    produce_bytes_left: int
    """What may be produced before the quota has to be asked again."""

    handler_ns: int
    """What handling the session's requests took since somebody set it to 0."""

    def __init__(self, rules: Rules) -> None: ...
    def decided(self, anywhere: bool) -> None:
        """The decisions kept from now on are of the present rules.  `anywhere`: every topic may be written and read."""

    def is_current(self) -> bool:
        """False when the rules have changed since `decided`."""

    def allow_writes(self, topic: str | bytes) -> None:
        """`topic` is a name, or an id as bytes."""

    def remembers_write(self, topic: str | bytes) -> bool:
        """False: the gate has to decide."""

    def allow_reads(self, topic: str) -> None: ...
    def may_read(self, topic: str) -> bool:
        """False: the gate has to decide."""
