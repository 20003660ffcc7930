"""An aggregate for tests."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from tidelog.events import Aggregate, Projection, Recorded, applies, event, upcast


@event("account.deposited", version=2)
@dataclass(frozen=True)
class Deposited:
    cents: int


@upcast("account.deposited", 1)
def _in_cents(fields: dict[str, int]) -> dict[str, int]:
    return {"cents": fields["euros"] * 100}


@event("account.withdrawn")
@dataclass(frozen=True)
class Withdrawn:
    cents: int


class Insufficient(Exception):
    pass


class Account(Aggregate):
    def begin(self) -> None:
        self.cents = 0

    def deposit(self, cents: int) -> None:
        self.record(Deposited(cents))

    def withdraw(self, cents: int) -> None:
        if cents > self.cents:
            raise Insufficient
        self.record(Withdrawn(cents))

    @applies(Deposited)
    def _deposited(self, happened: Deposited) -> None:
        self.cents += happened.cents

    @applies(Withdrawn)
    def _withdrawn(self, happened: Withdrawn) -> None:
        self.cents -= happened.cents


class Balances(Projection):
    def setup(self, db: sqlite3.Connection) -> None:
        db.execute(
            "CREATE TABLE balances (account TEXT PRIMARY KEY, cents INTEGER NOT NULL, changes INTEGER NOT NULL)"
        )

    @applies(Deposited, Withdrawn)
    def changed(self, db: sqlite3.Connection, recorded: Recorded) -> None:
        happened = recorded.event
        cents = happened.cents if isinstance(happened, Deposited) else -happened.cents
        db.execute(
            "INSERT INTO balances VALUES (?, ?, 1) "
            "ON CONFLICT (account) DO UPDATE SET cents = cents + ?, changes = changes + 1",
            (recorded.aggregate_id, cents, cents),
        )

    def deleted(self, db: sqlite3.Connection, aggregate_id: str) -> None:
        db.execute("DELETE FROM balances WHERE account = ?", (aggregate_id,))
