"""Security options, as the client gets them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog import ClientCredentials, Security
from tidelog.pipeline.options.connection import ConnectionSettings, security_options
from tidelog.pipeline.options.sink import sink_options
from tidelog.pipeline.options.source import source_options
from tidelog.pipeline.options.text import PipelineError


def connection(**given: str) -> ConnectionSettings:
    options = {
        "bootstrap": "h:1",
        "topics": "t",
        **{f"security.{name}": value for name, value in given.items()},
    }
    return source_options(options, streaming=True).connection


def test_none_is_none() -> None:
    assert connection().security() is None


def test_passwords_and_certificates() -> None:
    made = connection(
        tls="TRUE", ca="ca.pem", certificate="me.pem", key="me.key", keyPassword="k", checkHostname="false",
        mechanism="SCRAM-SHA-512", username="me", password="secret",
    ).security()  # fmt: skip
    assert made is not None and made.tls and not made.check_hostname
    assert (made.ca, made.certificate, made.key, made.key_password) == ("ca.pem", "me.pem", "me.key", "k")
    assert (made.mechanism, made.username, made.password) == ("SCRAM-SHA-512", "me", "secret")


def test_tokens_are_read_anew_for_every_connection(tmp_path: Path) -> None:
    path = tmp_path / "token"
    made = connection(mechanism="OAUTHBEARER", tokenFile=str(path)).security()
    assert made is not None and made.token is not None
    for token in ("one", "two"):
        path.write_text(token + "\n")
        assert made.token() == token


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mechanism": "PLAIN"}, "needs username and password"),
        ({"mechanism": "MAGIC"}, "mechanism cannot be 'MAGIC'"),
        ({"tls": "yes"}, "use true or false"),
        ({"key": "me.key"}, "a key needs its certificate"),
        ({"pasword": "x"}, "did you mean 'security.password'"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        connection(**given)


def test_names_of_spark_s_kafka_connector() -> None:
    options = {"kafka.bootstrap.servers": "h:1", "SUBSCRIBE": "a", "startingOffsets": "earliest", "path": "x"}
    made = source_options(options, streaming=True)
    assert (made.connection.bootstrap, made.topics, made.starting.everywhere) == ("h:1", ("a",), "earliest")
    with pytest.raises(PipelineError, match="given twice"):
        source_options({**options, "topics": "b"}, streaming=True)


def test_names_of_sinks_have_no_slashes() -> None:
    with pytest.raises(PipelineError, match="sinkId"):
        sink_options({"bootstrap": "h:1", "topic": "t", "sinkId": "a/b"}, streaming=True)


@pytest.mark.parametrize(
    "security",
    [
        Security(tls=True),
        Security(ca="ca.pem", certificate="me.pem", key="me.key", key_password="k", check_hostname=False),
        Security(tls=True, mechanism="PLAIN", username="me", password="secret"),
        Security(
            ca="ca.pem",
            mechanism="OAUTHBEARER",
            token=ClientCredentials("https://login.example/token", "me", "secret", "kafka", "provider.pem"),
        ),
        Security(mechanism="OAUTHBEARER", token=ClientCredentials("file:///run/token")),
    ],
    ids=str,
)
def test_security_becomes_options_and_is_the_same_again(security: Security) -> None:
    given = {name.removeprefix("security."): value for name, value in security_options(security).items()}
    assert connection(**given).security() == security
    assert security_options(None) == {}
