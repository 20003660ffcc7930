"""`tidelog users`, `acls`, `roles` and `quotas` against a broker with an authorizer, and what the passwords are good for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.conftest import ON_KAFKA, BrokerFactory
from tests.conformance.test_access_apis import SETTINGS
from tests.conformance.test_cli_topics import failed, ok
from tests.unit.cli.commands import execute, invoke

PASSWORD = "correct horse"


@pytest.fixture
def on(own_broker: BrokerFactory) -> tuple[str, str]:
    return ("--bootstrap", own_broker(SETTINGS).bootstrap)


def told(*arguments: str) -> Any:
    return json.loads(ok(*arguments, "--json"))


def test_users(on: tuple[str, str], tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(PASSWORD + "\n")
    made = told("users", "create", "alice", "--password-file", str(file), *on)
    assert made == {"user": "alice", "mechanisms": ["SCRAM-SHA-256", "SCRAM-SHA-512"], "iterations": 8192}
    one = ("--mechanism", "SCRAM-SHA-512", "--iterations", "4096")
    done = execute("users", "create", "bob", "--password-stdin", *one, *on, input=PASSWORD.encode())
    assert done.returncode == 0, done.stderr
    assert told("users", "list", *on) == [
        {"user": "alice", "mechanisms": {"SCRAM-SHA-256": 8192, "SCRAM-SHA-512": 8192}},
        {"user": "bob", "mechanisms": {"SCRAM-SHA-512": 4096}},
    ]
    given = ("--password-file", str(file), *on)
    assert "User 'bob' already exists" in failed("users", "create", "bob", *given)
    assert "There is no user 'eve'" in failed("users", "password", "eve", *given)
    assert "bob: password changed for SCRAM-SHA-256" in ok(
        "users", "password", "bob", *one[:1], "SCRAM-SHA-256", *given
    )
    assert "There is no user 'eve': nothing was deleted" in failed("users", "delete", "alice", "eve", *on)
    assert ok("users", "delete", "alice", "bob", *on) == "2 users deleted\n"
    assert told("users", "list", *on) == []


@pytest.mark.parametrize(
    ("arguments", "input", "said"),
    [
        ((), b"", "There is no terminal to ask for the password"),
        (("--password-stdin",), b"", "The password is empty"),
        (("--password-stdin",), b"\n", "The password is empty"),
        (("--password-stdin",), b"\xff", "not UTF-8"),
        (("--password-stdin",), b"x" * 5000, "longer than"),
        (("--password-file", "/no/such/file"), b"", "cannot be read"),
        (("--password-file", "/dev/null", "--password-stdin"), b"", "cannot be combined"),
    ],
)
def test_passwords_that_cannot_be_had(arguments: tuple[str, ...], input: bytes, said: str) -> None:
    done = execute("users", "create", "alice", *arguments, input=input)
    assert done.returncode == 2 and said in done.stderr.decode()


def acl(principal: str, operation: str, resource: str, permission: str = "allow", host: str = "*") -> Any:
    return {
        "principal": principal,
        "permission": permission,
        "operation": operation,
        "resource": resource,
        "host": host,
    }


def test_acls(on: tuple[str, str]) -> None:
    ok("acls", "create", "alice", "topic:orders", "read", "describe", *on)
    ok("acls", "create", "Group:staff", "topic:sales.*", "write", *on)
    ok("acls", "create", "User:*", "topic:*", "all", "--deny", "--host", "10.0.0.9", *on)
    ok("acls", "create", "alice", "cluster", "idempotent-write", *on)
    denied = acl("User:*", "all", "topic:*", "deny", "10.0.0.9")
    sales = acl("Group:staff", "write", "topic:sales.*")
    assert len(told("acls", "list", *on)) == 5 and denied in told("acls", "list", *on)
    assert told("acls", "list", "--principal", "Group:staff", *on) == [sales]
    assert told("acls", "list", "--resource", "topic:sales.eu", *on) == []
    matching = told("acls", "list", "--resource", "topic:sales.eu", "--matching", *on)
    assert sales in matching and denied in matching and len(matching) == 2
    assert told("acls", "list", "--resource", "cluster", *on) == [
        acl("User:alice", "idempotent-write", "cluster")
    ]

    def explained(*arguments: str, allowed: bool) -> Any:
        shown = invoke("acls", "explain", *arguments, "--json", *on)
        assert shown.exit_code == (0 if allowed else 1), shown.stderr
        answer = json.loads(shown.stdout)
        assert answer["allowed"] is allowed
        return answer

    answer = explained("alice", "read", "topic:orders", allowed=True)
    assert (answer["reason"], answer["rule"]) == ("acl", acl("User:alice", "read", "topic:orders"))
    answer = explained("alice", "read", "topic:orders", "--host", "10.0.0.9", allowed=False)
    assert answer["rule"] == denied
    assert explained("bob", "read", "topic:orders", allowed=False)["reason"] == "no acl matches"
    assert explained("bob", "read", "group:g", allowed=False)["reason"] == "the resource has no acl"
    if not ON_KAFKA:  # Kafka does not tell who its super users are
        assert explained("ANONYMOUS", "read", "group:g", allowed=True)["reason"] == "super user"
    assert explained("bob", "write", "topic:sales.eu", "--group", "staff", allowed=True)["rule"] == sales
    text = invoke("acls", "explain", "alice", "read", "topic:orders", *on).stdout
    assert text.startswith(
        "User:alice may read topic orders from 127.0.0.1\nbecause: acl\nrule: allow User:alice read"
    )

    gone = told(
        "acls", "delete", "--principal", "alice", "--resource", "topic:orders", "--operation", "read", *on
    )
    assert gone == {"deleted": [acl("User:alice", "read", "topic:orders")]}
    assert "0 ACLs deleted" in ok("acls", "delete", "--principal", "eve", *on)
    assert len(told("acls", "list", *on)) == 4


@pytest.mark.parametrize(
    "arguments",
    [
        ("create", "alice", "planet:x", "read"),
        ("create", "alice", "topic:", "read"),
        ("create", "alice", "cluster:x", "read"),
        ("create", "", "topic:x", "read"),
        ("create", "alice", "topic:x", "fly"),
        ("list", "--matching"),
        ("list", "--matching", "--resource", "topic:a*"),
        ("delete",),
        ("explain", "alice", "read", "topic:*"),
    ],
)
def test_acls_that_cannot_be_meant(arguments: tuple[str, ...]) -> None:
    assert invoke("acls", *arguments).exit_code == 2


def test_roles(on: tuple[str, str]) -> None:
    ok("roles", "grant", "alice", "producer", "--prefix", "sales.", *on)
    ok("roles", "grant", "alice", "consumer", "--prefix", "sales.", *on)
    ok("roles", "grant", "Group:ops", "viewer", *on)
    held = [
        {"principal": "Group:ops", "role": "viewer", "prefix": "*"},
        {"principal": "User:alice", "role": "producer", "prefix": "sales."},
        {"principal": "User:alice", "role": "consumer", "prefix": "sales."},
    ]
    assert told("roles", "list", *on) == held
    assert told("roles", "list", "--principal", "alice", *on) == held[1:]
    answer = told("acls", "explain", "alice", "write", "topic:sales.eu", *on)
    assert answer["roles"] == [{"role": "producer", "prefix": "sales."}]
    gone = told("roles", "revoke", "alice", "producer", "--prefix", "sales.", *on)
    assert acl("User:alice", "write", "topic:sales.*") in gone["revoked"] and len(gone["revoked"]) == 2
    assert told("roles", "list", "--principal", "alice", *on) == held[2:]
    assert "does not have the role" in failed(
        "roles", "revoke", "alice", "producer", "--prefix", "sales.", *on
    )


def test_quotas(on: tuple[str, str]) -> None:
    assert told("quotas", "set", "--user", "alice", "producer_byte_rate=1024", *on) == {
        "entity": {"user": "alice"},
        "set": {"producer_byte_rate": 1024.0},
    }
    ok("quotas", "set", "--user", "alice", "--default-client-id", "request_percentage=12.5", *on)
    ok("quotas", "set", "--default-ip", "connection_creation_rate=20", *on)
    alice = {"entity": {"user": "alice"}, "quotas": {"producer_byte_rate": 1024.0}}
    both = {"entity": {"user": "alice", "client_id": None}, "quotas": {"request_percentage": 12.5}}
    address = {"entity": {"ip": None}, "quotas": {"connection_creation_rate": 20.0}}
    assert told("quotas", "list", *on) == [address, alice, both]
    assert told("quotas", "list", "--user", "alice", *on) == [alice, both]
    shown = [line.split() for line in ok("quotas", "list", *on).splitlines()]
    assert ["alice", "<default>", "-", "request_percentage", "12.5"] in shown
    assert "cannot be a fractional value" in failed(
        "quotas", "set", "--user", "a", "producer_byte_rate=0.5", *on
    )
    assert "has no quota request_percentage" in failed(
        "quotas", "delete", "--user", "alice", "request_percentage", *on
    )
    assert told("quotas", "delete", "--user", "alice", *on)["deleted"] == ["producer_byte_rate"]
    assert told("quotas", "list", *on) == [address, both]
    for arguments in (
        ("set", "producer_byte_rate=1"),
        ("set", "--user", "a", "producer_rate=1"),
        ("set", "--user", "a", "producer_byte_rate=much"),
        ("set", "--user", "a", "--default-user", "producer_byte_rate=1"),
        ("delete",),
    ):
        assert invoke("quotas", *arguments, *on).exit_code == 2
