"""Which receivers of client metrics can be set."""

from __future__ import annotations

import pytest

from tidelog.config import BrokerConfig
from tidelog.config.otlp import parse_headers
from tidelog.errors import InvalidConfig

GOOD = "http://collector:4318/v1/metrics"


def config(**settings: str) -> BrokerConfig:
    return BrokerConfig.of({f"tidelog.telemetry.otlp.{name}": value for name, value in settings.items()})


def test_a_receiver_is_a_url_with_headers() -> None:
    assert config(endpoint=GOOD, headers="api-key=x").tidelog_telemetry_otlp_endpoint == GOOD
    assert config(endpoint="https://[::1]/v1/metrics?tenant=a")
    assert config().tidelog_telemetry_otlp_endpoint is None
    assert parse_headers("api-key=a=b, X-Scope = 1") == {"api-key": "a=b", "x-scope": "1"}
    assert parse_headers("") == {}


@pytest.mark.parametrize(
    ("endpoint", "headers"),
    [
        ("collector:4318", None),
        ("file:///etc/passwd", None),
        ("http:///v1/metrics", None),
        ("http://user:secret@collector/v1/metrics", None),
        ("http://collector:x/", None),
        ("http://collector/\r\nhost: x", None),
        ("http://collector/a b", None),
        (GOOD, "api-key"),
        (GOOD, "a b=c"),
        (GOOD, "=secret"),
        (GOOD, "api-key=secret\r\nx: y"),
        (GOOD, "\u00e9=secret"),
        (GOOD, "Content-Length=3"),
        (None, "api-key=secret"),
    ],
)
def test_others_are_refused_without_a_secret_in_the_text(endpoint: str | None, headers: str | None) -> None:
    given = {"endpoint": endpoint, "headers": headers}
    with pytest.raises(InvalidConfig, match=r"tidelog\.telemetry\.otlp") as refused:
        config(**{name: value for name, value in given.items() if value is not None})
    assert "secret" not in str(refused.value)
