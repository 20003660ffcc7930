"""Every API is recorded in the audit trail, or known not to change anything an administrator answers for."""

from __future__ import annotations

from tidelog.broker.audit.admin_changes import CHANGES, UNRECORDED, _shown_config
from tidelog.broker.routes import ROUTES
from tidelog.config import BROKER_SETTINGS
from tidelog.gateways.registry.audited import CHANGES as REGISTRY_CHANGES
from tidelog.gateways.registry.audited import UNCHANGING
from tidelog.gateways.registry.routes import ENDPOINTS


def test_every_api_is_in_one_of_the_tables() -> None:
    served = {route.name for route in ROUTES.values()}
    assert set(CHANGES) | UNRECORDED == served
    assert not set(CHANGES) & UNRECORDED


def test_every_endpoint_of_the_registry_that_is_no_get_is_in_one_of_the_tables() -> None:
    writing = {endpoint for endpoint in ENDPOINTS if endpoint[0] != "GET"}
    assert set(REGISTRY_CHANGES) | UNCHANGING == writing


def test_no_secret_setting_is_shown() -> None:
    secret = [name for name, setting in BROKER_SETTINGS.items() if setting.sensitive]
    assert "ssl.key.password" in secret
    for name in secret:
        assert _shown_config("BROKER", name, "hush") == "[hidden]"
        for prefix in ("listener.name.sec.", "listener.name.sec.plain."):
            assert _shown_config("BROKER", prefix + name, "hush") == "[hidden]"
    assert _shown_config("BROKER", "ssl.key.pasword", "hush") == "[hidden]"
    assert _shown_config("TOPIC", "no.such.setting", "hush") == "[hidden]"
    assert _shown_config("TOPIC", "retention.ms", "1000") == "1000"
