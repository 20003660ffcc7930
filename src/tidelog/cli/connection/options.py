"""The options of every command that connects to brokers or to the schema registry, and what they come to: the command line
counts first, then the environment (`TIDELOG_...`), then the profile, then the default."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from tidelog.cli.connection.command_config import ClientLogin
from tidelog.cli.connection.profile_file import KEPT, Profile, chosen_profile

F = TypeVar("F", bound=Callable[..., Any])

BOOTSTRAP = "127.0.0.1:9092"
REGISTRY = "http://127.0.0.1:8090"
MECHANISM = "SCRAM-SHA-512"
# Those whose log-in needs no more than a name and a password, and Kerberos, whose tickets kinit got.
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI")
PASSWORD = "TIDELOG_SASL_PASSWORD"
ADDRESSES = ("bootstrap", "registry")


class Finite(click.FloatRange):
    """A number that is neither infinite nor NaN, which every range would accept."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return number


@dataclass(frozen=True, slots=True)
class Connection:
    bootstrap: str
    registry: str
    timeout_ms: int
    json: bool
    login: ClientLogin


def shared_option(*names: str, about: str, **settings: Any) -> Callable[[F], F]:
    """One that every command takes from the same variable: TIDELOG_ and the name of the option."""
    variable = "TIDELOG_" + names[0].partition("/")[0].removeprefix("--").replace("-", "_").upper()
    return click.option(*names, envvar=variable, show_envvar=True, help=about, **settings)


def check_bootstrap(ctx: click.Context, param: click.Parameter, value: str) -> str:
    from tidelog.client.cluster.addresses import parse_addresses

    try:
        parse_addresses(value)
    except ValueError as problem:
        raise click.BadParameter(str(problem)) from None
    return value


_FILE = click.Path(path_type=Path)

bootstrap_option = shared_option(
    "--bootstrap",
    about="A bootstrap broker, or several separated by commas.",
    default=BOOTSTRAP,
    show_default=True,
    metavar="HOST:PORT[,...]",
    callback=check_bootstrap,
)
registry_option = shared_option(
    "--registry",
    about="The HTTP port of any broker; several with commas between.",
    default=REGISTRY,
    show_default=True,
    metavar="URL[,...]",
)
json_option = shared_option("--json", "as_json", about="Print JSON instead of text.", is_flag=True)
_login: tuple[tuple[tuple[str, ...], str, dict[str, Any]], ...] = (
    (
        ("--tls/--no-tls",),
        "Encrypt connections; implied by a --tls-... option.",
        {"is_flag": True, "default": None},
    ),
    (
        ("--tls-ca",),
        "Authorities that certify the brokers, in PEM; those of the system by default.",
        {"type": _FILE, "metavar": "FILE"},
    ),
    (("--tls-cert",), "The client's certificate, in PEM.", {"type": _FILE, "metavar": "FILE"}),
    (
        ("--tls-key",),
        "The key of --tls-cert, where it is in another file.",
        {"type": _FILE, "metavar": "FILE"},
    ),
    (
        ("--sasl-mechanism",),
        f"How to log in; {MECHANISM} by default with --sasl-user.",
        {"type": click.Choice(MECHANISMS, case_sensitive=False)},
    ),
    (
        ("--sasl-user",),
        f"Log in as this user.  The password comes from --sasl-password-file, {PASSWORD}, or a prompt.",
        {"metavar": "NAME"},
    ),
    (
        ("--sasl-password-file",),
        "A file with the password of --sasl-user.",
        {"type": _FILE, "metavar": "FILE"},
    ),
)
command_config_option = shared_option(
    "--command-config",
    about="A properties file with the log-in: security.protocol, sasl.* and ssl.*; for the schema registry also "
    "basic.auth.user.info or bearer.auth.token.",
    type=_FILE,
    metavar="FILE",
)
profile_option = shared_option(
    "--profile",
    about="Take options from this profile; by default from the one in use, unless an address is given.  "
    "`profile create --help` shows the options for TLS and the log-in.",
    metavar="NAME",
)
timeout_settings: dict[str, Any] = {
    "type": Finite(min=0, min_open=True),
    "default": 10.0,
    "show_default": True,
    "metavar": "SECONDS",
}


def timeout_option(whom: str) -> Callable[[F], F]:
    return shared_option("--timeout", about=f"How long to wait for the {whom}.", **timeout_settings)


def connection_options(whom: str, address: Callable[[F], F]) -> Callable[[F], F]:
    """`address`: the option that says where `whom` is."""

    def add(command: F) -> F:
        for option in (json_option, timeout_option(whom), profile_option):
            command = option(command)
        return address(login_options(command, hidden=True))

    return add


def login_options(command: F, hidden: bool = False) -> F:
    """`hidden`: `tidelog profile create --help` shows them, and the other commands point there."""
    for names, about, settings in reversed(_login):
        command = shared_option(*names, about=about, hidden=hidden, **settings)(command)
    return command_config_option(command)


def take_connection(kwargs: dict[str, Any]) -> Connection:
    """Takes these options out of those of a command.  What stays and may be in a profile is filled in."""
    context = click.get_current_context()
    profile = profile_of(context)
    if profile is not None:
        for name in KEPT:
            if name in kwargs and name in profile.options and _is_default(context, name):
                kwargs[name] = profile.options[name]
        if "bootstrap" in kwargs:
            check_bootstrap(context, context.command.params[0], kwargs["bootstrap"])
    registry = kwargs.get("registry", REGISTRY) if "bootstrap" in kwargs else kwargs.pop("registry")
    kwargs.pop("profile")
    timeout, as_json = kwargs.pop("timeout"), kwargs.pop("as_json")
    bootstrap = kwargs.pop("bootstrap", BOOTSTRAP)
    return Connection(bootstrap, registry, max(1, int(timeout * 1000)), as_json, _take_login(kwargs, profile))


def profile_of(context: click.Context) -> Profile | None:
    """The one in use is for its own address only: another cluster would get its password.  A profile that is named counts
    everywhere."""
    name = context.params.get("profile")
    if name is not None:
        return chosen_profile(name)
    address = next(name for name in ADDRESSES if name in context.params)
    if not _is_default(context, address):
        return None
    in_use = chosen_profile(None)
    return in_use if in_use is not None and address in in_use.options else None


def other_cluster_options(command: F) -> F:
    """Adds --to and --to-profile, for `CommandSession.other`."""
    for option in (
        click.option(
            "--to-profile", metavar="NAME", help="The other cluster, with its log-in, from a profile."
        ),
        click.option(
            "--to",
            callback=lambda context, option, value: (
                None if value is None else check_bootstrap(context, option, value)
            ),
            metavar="HOST:PORT[,...]",
            help="Brokers of the other cluster, with the log-in of this one.",
        ),
    ):
        command = option(command)
    return command


def other_connection(here: Connection, bootstrap: str | None, profile_name: str | None) -> Connection:
    """A second cluster: of a profile, or at an address with the log-in of the first one."""
    if profile_name is None:
        return here if bootstrap is None else replace(here, bootstrap=bootstrap)
    profile = chosen_profile(profile_name)
    assert profile is not None
    options: dict[str, Any] = dict.fromkeys(KEPT) | {"sasl_password_file": None} | dict(profile.options)
    return replace(
        here,
        bootstrap=bootstrap or options["bootstrap"] or BOOTSTRAP,
        login=_take_login(options, profile),
    )


def _is_default(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) in (ParameterSource.DEFAULT, None)


def _take_login(kwargs: dict[str, Any], profile: Profile | None) -> ClientLogin:
    file, tls = kwargs.pop("command_config"), kwargs.pop("tls")
    user, password_file = kwargs.pop("sasl_user"), kwargs.pop("sasl_password_file")
    mechanism = kwargs.pop("sasl_mechanism")
    settings = {
        setting: str(path)
        for setting, path in (
            ("ssl.ca.location", kwargs.pop("tls_ca")),
            ("ssl.certificate.location", kwargs.pop("tls_cert")),
            ("ssl.key.location", kwargs.pop("tls_key")),
        )
        if path is not None
    }
    if password_file is not None and user is None:
        raise click.UsageError("--sasl-password-file needs --sasl-user.")
    if user is not None:
        kept = profile.password if profile is not None and profile.options.get("sasl_user") == user else None
        settings["sasl.username"] = user
        settings["sasl.password"] = password_of(user, password_file, kept)
    if mechanism is not None or user is not None:
        settings["sasl.mechanism"] = (mechanism or MECHANISM).upper()
    if tls is False and any(name.startswith("ssl.") for name in settings):
        raise click.UsageError("--no-tls cannot be combined with --tls-ca, --tls-cert or --tls-key.")
    return ClientLogin(None if file is None else Path(file), tls, settings)


def password_of(user: str, file: Path | None, kept: str | None) -> str:
    """From the file, the variable, the profile or a prompt; UsageError when there is none."""
    from tidelog.cli.security.passwords import read_password_file

    if file is not None:
        return read_password_file(file)
    password = os.environ.get(PASSWORD) or kept
    completing = click.get_current_context().resilient_parsing
    if password is None and not completing and sys.stdin is not None and sys.stdin.isatty():
        password = str(click.prompt(f"Password for {user}", hide_input=True, err=True))
    if not password:
        raise click.UsageError(
            f"There is no password for {user}: use --sasl-password-file, the variable {PASSWORD}, or a profile."
        )
    return password
