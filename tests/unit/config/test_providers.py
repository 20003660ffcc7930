"""Config providers: references in settings, looked up at the start of a broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.cli.commands import execute
from tidelog.config import BrokerConfig
from tidelog.config.providers import resolved
from tidelog.errors import InvalidConfig

PACKAGE = "org.apache.kafka.common.config.provider."


def provider(name: str, kind: str, **parameters: str) -> dict[str, str]:
    own = f"config.providers.{name}."
    given = {f"{own}param.{key.replace('_', '.')}": text for key, text in parameters.items()}
    return {"config.providers": name, f"{own}class": f"{PACKAGE}{kind}", **given}


def test_a_value_comes_from_a_properties_file(tmp_path: Path) -> None:
    (tmp_path / "secrets.properties").write_text("store=s3cret\nother=o:ther\n")
    given = provider("file", "FileConfigProvider")
    given["ssl.keystore.password"] = f"${{file:{tmp_path}/secrets.properties:store}}"
    given["broker.rack"] = (
        f"a-${{file:{tmp_path}/secrets.properties:other}}-${{file:{tmp_path}/secrets.properties:store}}"
    )
    settings = resolved(given)
    assert settings == {
        "config.providers": "file",
        "ssl.keystore.password": "s3cret",
        "broker.rack": "a-o:ther-s3cret",
    }
    assert BrokerConfig.of(settings).config_providers == ("file",)


def test_a_value_comes_from_a_file_of_a_directory(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("s3cret\n")
    given = provider("dir", "DirectoryConfigProvider") | {"broker.rack": f"${{dir:{tmp_path}:password}}"}
    assert resolved(given)["broker.rack"] == "s3cret\n"


def test_a_value_comes_from_the_environment() -> None:
    given = provider("env", "EnvVarConfigProvider", allowlist_pattern="BROKER_.*")
    variables = {"BROKER_RACK": "r1", "HOME": "/root"}
    assert resolved(given | {"broker.rack": "${env:BROKER_RACK}"}, variables)["broker.rack"] == "r1"
    with pytest.raises(
        InvalidConfig, match=r"broker\.rack refers to \$\{env:HOME\}, but there is no 'HOME' there"
    ):
        resolved(given | {"broker.rack": "${env:HOME}"}, variables)


def test_without_providers_and_for_others_a_reference_stays_as_it_is() -> None:
    assert resolved({"broker.rack": "${env:HOME}"})["broker.rack"] == "${env:HOME}"
    given = provider("env", "EnvVarConfigProvider") | {"broker.rack": "${vault:secret:key}"}
    assert resolved(given)["broker.rack"] == "${vault:secret:key}"


@pytest.mark.parametrize("path", ["/etc/hostname", "{allowed}/../outside"])
def test_a_path_outside_the_allowed_ones_is_refused(tmp_path: Path, path: str) -> None:
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    (tmp_path / "outside").write_text("key=value")
    (allowed / "inside").write_text("key=value")
    given = provider("file", "FileConfigProvider", allowed_paths=str(allowed))
    assert resolved(given | {"broker.rack": f"${{file:{allowed}/inside:key}}"})["broker.rack"] == "value"
    with pytest.raises(InvalidConfig, match=r"is not below allowed\.paths"):
        resolved(given | {"broker.rack": f"${{file:{path.format(allowed=allowed)}:key}}"})


def test_a_reference_that_leads_nowhere_names_the_setting(tmp_path: Path) -> None:
    given = provider("file", "FileConfigProvider")
    with pytest.raises(InvalidConfig, match=r"broker\.rack refers to .*: No such file"):
        resolved(given | {"broker.rack": f"${{file:{tmp_path}/none:key}}"})
    with pytest.raises(InvalidConfig, match="the path is missing"):
        resolved(given | {"broker.rack": "${file:key}"})


def test_a_provider_without_a_class_that_is_served_is_refused() -> None:
    with pytest.raises(
        InvalidConfig, match=r"config\.providers\.vault\.class cannot be 'com\.example\.Vault'"
    ):
        resolved({"config.providers": "vault", "config.providers.vault.class": "com.example.Vault"})
    with pytest.raises(InvalidConfig, match=r"config\.providers does not name: add file"):
        resolved({"config.providers.file.class": f"{PACKAGE}FileConfigProvider"})


def test_providers_cannot_change_while_a_broker_runs() -> None:
    with pytest.raises(InvalidConfig, match="acts at the start of a broker"):
        BrokerConfig.of({}).with_dynamic({"config.providers": "file"}, {})


def test_the_server_looks_up_references_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "server.properties").write_text(
        f"config.providers=env\nconfig.providers.env.class={PACKAGE}EnvVarConfigProvider\nbroker.rack=${{env:NO_SUCH_RACK}}\n"
    )
    refused = execute(
        "serve", "--config", str(tmp_path / "server.properties"), "--data", str(tmp_path / "data")
    )
    assert refused.returncode != 0 and "broker.rack refers to ${env:NO_SUCH_RACK}" in refused.stderr.decode()
