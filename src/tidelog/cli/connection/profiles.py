"""`tidelog profile`: create, list, use, show and delete named sets of connection options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tidelog.cli.connection.options import (
    ADDRESSES,
    bootstrap_option,
    json_option,
    login_options,
    password_of,
    registry_option,
    timeout_option,
)
from tidelog.cli.connection.profile_file import (
    KEPT,
    Profile,
    Profiles,
    changed_profiles,
    profiles_path,
    read_profiles,
)
from tidelog.cli.output import print_json, print_table
from tidelog.cli.session import command_help

SHAPE = '{"name", "in_use", "options": {OPTION: VALUE}, "password": true if the profile has one}'
NAME_CHARACTERS_MAX = 100


@click.group(help="Keep addresses and log-ins under a name.")
def profile() -> None:
    pass


@profile.command(
    help=command_help(
        "Keep the options that are given, or set by variables, as a profile: addresses, TLS, log-in, --timeout and --json.  "
        "A password is asked for, or read from a file, and kept in the file of profiles, which only you can read.",
        """
tidelog profile create staging --bootstrap kafka1:9093,kafka2:9093 --tls-ca ca.pem --sasl-user alice
tidelog profile create local --bootstrap 127.0.0.1:9092 --registry http://127.0.0.1:8090 --use
""",
        SHAPE,
    )
)
@click.argument("name")
@click.option("--use", "used", is_flag=True, help="Use the profile from now on.")
@click.option("--replace", is_flag=True, help="Replace a profile of this name.")
@bootstrap_option
@registry_option
@login_options
@timeout_option("broker or the registry")
@json_option
def create(name: str, used: bool, replace: bool, **options: Any) -> None:
    context = click.get_current_context()
    if not name.isprintable() or not name.strip() or len(name) > NAME_CHARACTERS_MAX:
        raise click.BadParameter(f"{name!r} cannot be the name of a profile", param_hint="NAME")
    given = {
        option: value
        for option, value in options.items()
        if option in KEPT
        and value is not None
        and context.get_parameter_source(option) is not click.core.ParameterSource.DEFAULT
    }
    kept = {
        option: str(value.absolute()) if isinstance(value, Path) else value for option, value in given.items()
    }
    user, password_file = options["sasl_user"], options["sasl_password_file"]
    if user is None and password_file is not None:
        raise click.UsageError("--sasl-password-file needs --sasl-user.")
    if not any(address in kept for address in ADDRESSES):
        raise click.UsageError("A profile needs an address: --bootstrap, --registry, or both.")
    password = None if user is None else password_of(user, password_file, None)
    with changed_profiles() as steps:
        if name in steps[0].by_name and not replace:
            raise click.UsageError(f"There is already a profile {name!r}: use --replace, or another name.")
        profiles = steps[0].with_profile(Profile(name, kept, password))
        steps.append(Profiles(profiles.by_name, name) if used else profiles)
    _print_one(steps[-1], name, options["as_json"], f"created {name}")


@profile.command(
    "list",
    help=command_help(
        "List the profiles.  A password is never shown.",
        "tidelog profile list",
        f"[{SHAPE}...]",
    ),
)
@json_option
def list_(as_json: bool) -> None:
    profiles = read_profiles()
    shown = [_json(profiles, name) for name in sorted(profiles.by_name)]
    if as_json:
        print_json(shown)
        return
    rows = [
        (
            fields["name"],
            "yes" if fields["in_use"] else "",
            fields["options"].get("bootstrap"),
            fields["options"].get("registry"),
            fields["options"].get("sasl-user"),
        )
        for fields in shown
    ]
    print_table(("NAME", "IN USE", "BOOTSTRAP", "REGISTRY", "USER"), rows)


@profile.command(
    help=command_help(
        "Show the options of a profile, by default of the one in use.  Passwords are not shown.",
        """
tidelog profile show
tidelog profile show staging --json
""",
        SHAPE,
    )
)
@click.argument("name", required=False)
@json_option
def show(name: str | None, as_json: bool) -> None:
    profiles = read_profiles()
    chosen = name or profiles.in_use
    if chosen is None:
        raise click.UsageError("No profile is in use: name one, or tidelog profile use NAME.")
    profiles.named(chosen)
    fields = _json(profiles, chosen)
    if as_json:
        print_json(fields)
        return
    rows = [*fields["options"].items()] + ([("password", "kept")] if fields["password"] else [])
    print_table(("OPTION", "VALUE"), rows)


@profile.command(
    help=command_help(
        "Use a profile: from now on its options count wherever the command line and the environment say nothing else.  A "
        "command that is given another address does not use the profile, so that its password goes nowhere else.",
        """
tidelog profile use staging
tidelog profile use --none
""",
        '{"in_use": NAME or null}',
    )
)
@click.argument("name", required=False)
@click.option("--none", "nothing", is_flag=True, help="Use no profile.")
@json_option
def use(name: str | None, nothing: bool, as_json: bool) -> None:
    if (name is None) != nothing:
        raise click.UsageError("Give the name of a profile, or --none.")
    with changed_profiles() as steps:
        if name is not None:
            steps[0].named(name)
        steps.append(Profiles(steps[0].by_name, name))
    if as_json:
        print_json({"in_use": name})
    else:
        click.echo("using no profile" if name is None else f"using {name}")


@profile.command(
    help=command_help(
        "Delete a profile, with the password it keeps.",
        "tidelog profile delete staging",
        '{"deleted": NAME}',
    )
)
@click.argument("name")
@json_option
def delete(name: str, as_json: bool) -> None:
    with changed_profiles() as steps:
        steps[0].named(name)
        steps.append(steps[0].without(name))
    if as_json:
        print_json({"deleted": name})
    else:
        click.echo(f"deleted {name} from {profiles_path()}")


def _print_one(profiles: Profiles, name: str, as_json: bool, done: str) -> None:
    if as_json:
        print_json(_json(profiles, name))
    else:
        in_use = ", in use" if profiles.in_use == name else f"; use it with: tidelog profile use {name}"
        click.echo(done + in_use)


def _json(profiles: Profiles, name: str) -> dict[str, Any]:
    profile = profiles.by_name[name]
    return {
        "name": name,
        "in_use": profiles.in_use == name,
        "options": {_word(option): value for option, value in profile.options.items()},
        "password": profile.password is not None,
    }


def _word(option: str) -> str:
    return "json" if option == "as_json" else option.replace("_", "-")
