"""`tidelog schemas`: list, get, register, check, delete, config."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import quote

import click

from tidelog.cli.completion import beginning, timeout_ms, typed_connection
from tidelog.cli.connection.command_config import RegistryLogin, check_encrypted
from tidelog.cli.connection.options import connection_options, registry_option, take_connection
from tidelog.cli.output import print_json, print_table
from tidelog.cli.session import Failure, command_help

if TYPE_CHECKING:
    from tidelog.schema.registry import Registry

F = TypeVar("F", bound=Callable[..., Any])

TYPES = {".avsc": "AVRO", ".proto": "PROTOBUF", ".json": "JSON"}
LEVELS = [
    *("NONE", "BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE"),
    *("FULL", "FULL_TRANSITIVE"),
]


class RegistrySession(NamedTuple):
    """The registry that a command talks to."""

    urls: str
    timeout_ms: int
    json: bool
    login: RegistryLogin

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        from tidelog.schema import RegistryError

        try:
            return registry_of(self.urls, self.login, self.timeout_ms).ask(method, path, body)
        except RegistryError as problem:
            raise Failure(str(problem)) from None


def registry_of(urls: str, login: RegistryLogin, timeout_ms: int) -> Registry:
    """The client of the schema registry."""
    from tidelog.schema import Registry

    if login.of_brokers:
        check_encrypted(urls, "basic.auth.user.info")
    try:
        return Registry(
            urls.split(","),
            username=login.username,
            password=login.password,
            token=login.token,
            authorization=login.authorization,
            ssl_context=login.context,
            timeout_ms=timeout_ms,
        )
    except ValueError as problem:
        raise Failure(str(problem)) from None


def complete_subjects(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    try:
        given = typed_connection(ctx)
        registry = registry_of(given.registry, given.login.registry_login(), timeout_ms())
        subjects: Any = registry.ask("GET", "/subjects?subjectPrefix=:*:")
    except Exception:  # of any kind: a shell shows no errors while somebody types
        return []
    return beginning(incomplete, subjects)


def registry_options(command: F) -> F:
    """Adds --registry and the other options of `connection_options`; the command gets a `RegistrySession` first."""

    @functools.wraps(command)
    def with_registry(*args: Any, **kwargs: Any) -> Any:
        given = take_connection(kwargs)
        session = RegistrySession(given.registry, given.timeout_ms, given.json, given.login.registry_login())
        return command(session, *args, **kwargs)

    return connection_options("registry", registry_option)(with_registry)  # type: ignore[return-value]


_type = click.option(
    "--type",
    "type_",
    type=click.Choice(["AVRO", "PROTOBUF", "JSON"], case_sensitive=False),
    help="Type of the schema; by default from the file name (.avsc, .proto, .json), otherwise AVRO.",
)
_references = click.option(
    "--reference",
    "references",
    multiple=True,
    metavar="NAME=SUBJECT:VERSION",
    help="A schema that this one refers to; repeat.",
)
_normalize = click.option("--normalize", is_flag=True, help="Normalize the schema first.")
_file = click.argument("file", metavar="FILE|-")


@click.group(help="Show, register, check and delete schemas.")
def schemas() -> None:
    pass


@schemas.command(
    "list",
    help=command_help(
        "List the subjects of the registry, with their latest schema.",
        """
tidelog schemas list
tidelog schemas list --prefix orders --deleted
tidelog schemas list --prefix ':.staging:'
""",
        '[{"subject", "versions", "id", "type", "compatibility"}]',
    ),
)
@click.option("--prefix", default="", metavar="TEXT", help="Only subjects with this prefix.")
@click.option("--deleted", is_flag=True, help="Include soft-deleted subjects.")
@registry_options
def list_(asking: RegistrySession, prefix: str, deleted: bool) -> None:
    also = "&deleted=true" * deleted
    names = asking.ask("GET", f"/subjects?subjectPrefix={quote(prefix or ':*:', safe='')}{also}")
    rows = []
    for name in names:
        path = quote(name, safe="")
        versions = asking.ask("GET", f"/subjects/{path}/versions?{also[1:]}")
        newest = asking.ask("GET", f"/subjects/{path}/versions/{versions[-1]}?{also[1:]}")
        level = asking.ask("GET", f"/config/{path}?defaultToGlobal=true")["compatibilityLevel"]
        rows.append((name, versions, newest["id"], newest.get("schemaType", "AVRO"), level))
    if asking.json:
        keys = ("subject", "versions", "id", "type", "compatibility")
        print_json([dict(zip(keys, row, strict=True)) for row in rows])
        return
    print_table(
        ("SUBJECT", "VERSIONS", "ID", "TYPE", "COMPATIBILITY"),
        [(name, ",".join(map(str, versions)), *rest) for name, versions, *rest in rows],
        right=("ID",),
    )


@schemas.command(
    "get",
    help=command_help(
        "The text of a schema, by subject and version or by id.",
        """
tidelog schemas get orders-value
tidelog schemas get orders-value --version 2
tidelog schemas get --id 7 --json
""",
        '{"subject", "version", "id", "schemaType", "references", "schema"}',
    ),
)
@click.argument("subject", required=False, shell_complete=complete_subjects)
@click.option("--version", default="latest", show_default=True, metavar="N", help="Version of the subject.")
@click.option(
    "--id",
    "schema_id",
    type=click.IntRange(min=0),
    metavar="N",
    help="Id of the schema, instead of a subject.",
)
@click.option("--deleted", is_flag=True, help="Include deleted versions.")
@registry_options
def get(
    asking: RegistrySession, subject: str | None, version: str, schema_id: int | None, deleted: bool
) -> None:
    if (subject is None) == (schema_id is None):
        raise click.UsageError("Name a subject, or an id with --id.")
    if subject is None:
        answer = asking.ask("GET", f"/schemas/ids/{schema_id}")
    else:
        path = f"/subjects/{quote(subject, safe='')}/versions/{quote(version, safe='')}"
        answer = asking.ask("GET", path + "?deleted=true" * deleted)
    if asking.json:
        print_json(answer)
    else:
        sys.stdout.write(_readable(answer))


@schemas.command(
    "register",
    help=command_help(
        "Register a schema under a subject; prints its id.  The versions of a subject must be compatible.",
        """
tidelog schemas register orders-value order.avsc
tidelog schemas register orders-value order.proto --reference customer.proto=customer:1
jq .schema dump.json | tidelog schemas register orders-value - --type JSON
""",
        '{"id", "version", "guid"}',
    ),
)
@click.argument("subject", shell_complete=complete_subjects)
@_file
@_type
@_references
@_normalize
@registry_options
def register(
    asking: RegistrySession,
    subject: str,
    file: str,
    type_: str | None,
    references: tuple[str, ...],
    normalize: bool,
) -> None:
    body = _body(file, type_, references)
    path = f"/subjects/{quote(subject, safe='')}/versions" + "?normalize=true" * normalize
    answer = asking.ask("POST", path, body)
    if asking.json:
        print_json(answer)
    else:
        click.echo(f"{subject} version {answer.get('version', '?')} has id {answer['id']}")


@schemas.command(
    "check",
    help=command_help(
        "Check whether a schema can be registered, and print the incompatibilities.  Exit code 1 if it cannot.",
        """
tidelog schemas check orders-value order.avsc
tidelog schemas check orders-value order.avsc --version 3
""",
        '{"is_compatible", "messages"}',
    ),
)
@click.argument("subject", shell_complete=complete_subjects)
@_file
@_type
@_references
@_normalize
@click.option(
    "--version", metavar="N", help="Check against this version only, whatever the compatibility mode."
)
@registry_options
def check(
    asking: RegistrySession,
    subject: str,
    file: str,
    type_: str | None,
    references: tuple[str, ...],
    normalize: bool,
    version: str | None,
) -> None:
    body = _body(file, type_, references)
    path = f"/compatibility/subjects/{quote(subject, safe='')}/versions"
    path += "" if version is None else f"/{quote(version, safe='')}"
    answer = asking.ask("POST", f"{path}?verbose=true" + "&normalize=true" * normalize, body)
    if asking.json:
        print_json(answer)
    elif answer["is_compatible"]:
        click.echo("compatible")
    if not answer["is_compatible"]:
        raise Failure(*(answer.get("messages") or ["not compatible"]))


@schemas.command(
    "delete",
    help=command_help(
        "Delete a subject, or one version of it.  Readers still find deleted schemas by their id; --permanent "
        "removes versions that are already deleted.",
        """
tidelog schemas delete orders-value
tidelog schemas delete orders-value --version 2
tidelog schemas delete orders-value --permanent
""",
        "[1, 2]",
    ),
)
@click.argument("subject", shell_complete=complete_subjects)
@click.option("--version", metavar="N", help="Only this version.")
@click.option("--permanent", is_flag=True, help="Delete permanently; requires an earlier delete.")
@registry_options
def delete(asking: RegistrySession, subject: str, version: str | None, permanent: bool) -> None:
    path = f"/subjects/{quote(subject, safe='')}"
    path += "" if version is None else f"/versions/{quote(version, safe='')}"
    gone = asking.ask("DELETE", path + "?permanent=true" * permanent)
    versions = gone if isinstance(gone, list) else [gone]
    if asking.json:
        print_json(versions)
    else:
        click.echo(f"deleted {subject}, versions {', '.join(map(str, versions))}")


@schemas.command(
    "config",
    help=command_help(
        "Show or set the compatibility mode of a subject; without a subject, the global mode.",
        """
tidelog schemas config
tidelog schemas config --set FULL
tidelog schemas config orders-value --set BACKWARD_TRANSITIVE
tidelog schemas config orders-value --unset
""",
        '{"compatibilityLevel"}',
    ),
)
@click.argument("subject", required=False, shell_complete=complete_subjects)
@click.option("--set", "level", type=click.Choice(LEVELS, case_sensitive=False), help="The new mode.")
@click.option("--unset", is_flag=True, help="Remove the subject's mode, so that the global mode applies.")
@registry_options
def config(asking: RegistrySession, subject: str | None, level: str | None, unset: bool) -> None:
    if level is not None and unset:
        raise click.UsageError("Use either --set or --unset.")
    path = "/config" if subject is None else f"/config/{quote(subject, safe='')}"
    if level is not None:
        asking.ask("PUT", path, {"compatibility": level.upper()})
    elif unset:
        asking.ask("DELETE", path)
    answer = asking.ask("GET", f"{path}?defaultToGlobal=true")
    if asking.json:
        print_json(answer)
    else:
        for name, value in answer.items():
            click.echo(f"{name}: {value if isinstance(value, str) else json.dumps(value)}")


def _body(file: str, type_: str | None, references: tuple[str, ...]) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text()
    except (OSError, UnicodeDecodeError) as problem:
        raise Failure(f"{file}: {getattr(problem, 'strerror', None) or problem}") from None
    kind = (type_ or TYPES.get(Path(file).suffix, "AVRO")).upper()
    body: dict[str, Any] = {"schema": text, "schemaType": kind}
    schema_references = []
    for reference in references:
        name, equals, rest = reference.partition("=")
        subject, colon, version = rest.rpartition(":")
        if not (name and equals and subject and colon and version.lstrip("-").isdigit()):
            raise click.BadParameter(f"{reference!r} is not of the form NAME=SUBJECT:VERSION")
        schema_references.append({"name": name, "subject": subject, "version": int(version)})
    return {**body, "references": schema_references} if schema_references else body


def _readable(answer: dict[str, Any]) -> str:
    """JSON is easier to read when it is not on one line."""
    text: str = answer["schema"]
    if answer.get("schemaType") != "PROTOBUF":
        text = json.dumps(json.loads(text), indent=2, ensure_ascii=False) + "\n"
    return text if text.endswith("\n") else text + "\n"
