"""`tidelog profile` and what options come to: no broker is needed for what is refused."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import click
import pytest

from tests.unit.cli.commands import TIDELOG, invoke, leaves


@pytest.fixture(autouse=True)
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("TIDELOG_BOOTSTRAP", "TIDELOG_REGISTRY", "TIDELOG_SASL_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TIDELOG_PROFILES", str(tmp_path / "profiles.json"))
    return tmp_path / "profiles.json"


def said(*words: str) -> str:
    shown = invoke(*words)
    assert shown.exit_code == 0, shown.output
    return shown.stdout


def refused(*words: str) -> str:
    shown = invoke(*words)
    assert shown.exit_code == 2, shown.output
    assert "Traceback" not in shown.output
    return shown.stderr


def test_profiles_are_created_used_shown_and_deleted(path: Path) -> None:
    said("profile", "create", "a", "--bootstrap", "127.0.0.1:1", "--registry", "http://127.0.0.1:2")
    said("profile", "create", "b", "--bootstrap", "127.0.0.1:3", "--tls", "--use")
    listed = json.loads(said("profile", "list", "--json"))
    assert [(one["name"], one["in_use"]) for one in listed] == [("a", False), ("b", True)]
    assert "There is already a profile 'a'" in refused("profile", "create", "a", "--bootstrap", "127.0.0.1:4")
    said("profile", "create", "a", "--bootstrap", "127.0.0.1:4", "--replace")
    assert json.loads(said("profile", "show", "a", "--json"))["options"] == {"bootstrap": "127.0.0.1:4"}
    said("profile", "delete", "b")
    assert "No profile is in use" in refused("profile", "show")
    said("profile", "use", "a")
    assert said("profile", "use", "--none") == "using no profile\n"
    assert path.stat().st_mode & 0o777 == 0o600


def reached(*words: str) -> str:
    """The address that a command tried."""
    shown = invoke(*words)
    assert shown.exit_code == 1, shown.output
    return shown.stderr


def test_the_command_line_counts_above_variables_and_these_above_the_profile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said("profile", "create", "a", "--bootstrap", "127.0.0.1:1", "--use")
    assert "127.0.0.1:1:" in reached("topics", "list")
    monkeypatch.setenv("TIDELOG_BOOTSTRAP", "127.0.0.1:2")
    assert "127.0.0.1:2:" in reached("topics", "list")
    assert "127.0.0.1:3:" in reached("topics", "list", "--bootstrap", "127.0.0.1:3")


def test_a_profile_without_the_address_that_a_command_needs_is_not_used() -> None:
    said(
        "profile",
        "create",
        "registry",
        "--registry",
        "http://127.0.0.1:2",
        "--tls-ca",
        "/no/such/ca.pem",
        "--use",
    )
    # It would fail on the file of the authorities otherwise.
    assert "no/such" not in invoke("topics", "list", "--timeout", "1").stderr
    assert "no/such" in invoke("schemas", "list").stderr


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("profile", "create", "x"), "A profile needs an address"),
        (("profile", "create", " ", "--bootstrap", "a:1"), "cannot be the name"),
        (("profile", "create", "x", "--bootstrap", "a:x"), "Invalid value for '--bootstrap'"),
        (("profile", "create", "x", "--bootstrap", "a:1", "--sasl-user", "u"), "There is no password for u"),
        (("profile", "create", "x", "--bootstrap", "a:1", "--sasl-password-file", "f"), "needs --sasl-user"),
        (("profile", "use"), "Give the name of a profile"),
        (("profile", "use", "x"), "There is no profile 'x'; there are: none yet"),
        (("profile", "delete", "x"), "There is no profile 'x'"),
        (("topics", "list", "--profile", "x"), "There is no profile 'x'"),
        (("topics", "list", "--no-tls", "--tls-ca", "ca.pem"), "cannot be combined"),
        (("topics", "list", "--sasl-user", "u"), "There is no password for u"),
        (("topics", "list", "--sasl-user", "u", "--sasl-password-file", "/no/such"), "cannot be read"),
        (("topics", "list", "--tls-key", "/no/such"), "a key needs its certificate"),
        (("topics", "list", "--sasl-mechanism", "PLAIN"), "PLAIN needs username and password"),
    ],
)
def test_what_cannot_be_is_refused(words: tuple[str, ...], reason: str) -> None:
    assert reason in refused(*words)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"in_use": "x", "profiles": {}}',
        '{"in_use": null, "profiles": {"x": {"bootstrap": 5}}}',
        '{"in_use": null, "profiles": {"x": {"unknown": "y"}}}',
        '{"in_use": null, "profiles": {"x": {"sasl_password": 5}}}',
    ],
)
def test_a_damaged_file_is_named(path: Path, content: str) -> None:
    path.write_text(content)
    path.chmod(0o600)
    assert f"{path} is not a file of profiles" in refused("topics", "list")


def test_a_file_that_others_can_read_is_refused(path: Path) -> None:
    said("profile", "create", "a", "--bootstrap", "127.0.0.1:1")
    path.chmod(0o640)
    assert f"chmod 600 {path}" in refused("topics", "list")


def test_profiles_that_are_created_at_the_same_time_are_all_kept() -> None:
    names = [f"p{number}" for number in range(6)]
    makers = [
        subprocess.Popen(
            [TIDELOG, "profile", "create", name, "--bootstrap", "127.0.0.1:1"], stdout=subprocess.DEVNULL
        )
        for name in names
    ]
    assert [maker.wait(60) for maker in makers] == [0] * len(names)
    assert [one["name"] for one in json.loads(said("profile", "list", "--json"))] == names


def test_every_option_has_a_variable() -> None:
    for words, command in leaves():
        context = click.Context(command, auto_envvar_prefix="_".join(("TIDELOG", *words)).upper())
        for option in command.params:
            if isinstance(option, click.Option) and option.name != "help":
                assert option.envvar or (context.auto_envvar_prefix and option.allow_from_autoenv), (
                    words,
                    option.name,
                )


def test_a_variable_stands_for_an_option_that_only_one_command_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDELOG_TOPICS_CREATE_PARTITIONS", "0")
    assert "Invalid value for '--partitions'" in refused("topics", "create", "x")
