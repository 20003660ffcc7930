"""What the users of a tenant share on one broker: byte rates, connections, room; and which metrics they see."""

from __future__ import annotations

import pytest

from tidelog import errors
from tidelog._speed.wire.session import Rules
from tidelog.access.acls import AclOperation, AclResourceType
from tidelog.access.quotas import Quotas
from tidelog.access.tenants import Tenants
from tidelog.broker.gate import Gate
from tidelog.broker.quota_manager import UNLIMITED_BYTES, QuotaManager
from tidelog.broker.session import Session
from tidelog.broker.tenant_connections import TenantConnections
from tidelog.broker.tenant_storage import doors_without_login, full_tenants, worth_telling
from tidelog.config import BrokerConfig
from tidelog.gateways.metrics.page import Page
from tidelog.gateways.metrics.tenants import is_of_tenant
from tidelog.metadata.tenants import ENABLED
from tidelog.wire.client_quotas import QuotaEntity

ACME = QuotaEntity(tenant="acme")


def session(principal: str, client_id: str = "c") -> Session:
    made = Session(Rules(), "PLAIN", "10.0.0.1:1")
    made.principal, made.client_id, made.admitted = principal, client_id, True
    return made


def manager(**limits: float) -> QuotaManager:
    entities = {ACME: {ENABLED: 1.0, **limits}, QuotaEntity(user="acme/own"): {"producer_byte_rate": 500.0}}
    quotas, tenants = Quotas(entities), Tenants(entities)
    made = QuotaManager(lambda: quotas, now_ms=lambda: 0, tenants=lambda: tenants)
    assert made.learned() and made.active
    return made


def test_all_users_of_a_tenant_share_its_byte_rates() -> None:
    quotas = manager(producer_byte_rate=1000.0, consumer_byte_rate=1000.0)
    ann, bob, other = session("User:acme/ann"), session("User:acme/bob", "d"), session("User:zeta/zoe")
    assert quotas.charge_produce(ann, 6000) == 0
    assert quotas.charge_produce(bob, 6000) > 0, "what ann has used counts for bob"
    assert quotas.charge_produce(other, 1 << 30) == 0 and other.produce_bytes_left == UNLIMITED_BYTES
    assert ann.produce_bytes_left == bob.produce_bytes_left == 0, "each request is charged to the tenant"
    assert quotas.charge_fetch(ann, 6000) == 0 and quotas.charge_fetch(bob, 6000) > 0
    assert quotas.fetch_over(session("User:acme/carl")) > 0 and quotas.fetch_over(other) == 0
    assert quotas.fetch_bytes_max(ann) < quotas.fetch_bytes_max(other)


def test_a_quota_of_a_user_holds_beside_that_of_the_tenant() -> None:
    quotas = manager(producer_byte_rate=1000.0)
    own, ann = session("User:acme/own"), session("User:acme/ann")
    assert quotas.charge_produce(own, 5500) > 0, "above its own quota"
    assert own.produce_bytes_left == 0
    assert quotas.charge_produce(ann, 4000) == 0
    assert quotas.charge_produce(ann, 4000) > 0


def test_time_and_mutations_are_shared_as_well() -> None:
    quotas = manager(request_percentage=1.0, controller_mutation_rate=1.0)
    ann, bob = session("User:acme/ann"), session("User:acme/bob")
    assert quotas.measures(ann) and not quotas.measures(session("User:zeta/zoe"))
    quotas.charge_request(ann, 3)
    ann.handler_ns = 10**9
    assert quotas.charge_request(ann, 3) > 0 and quotas.charge_request(bob, 3) > 0
    assert quotas.charge_mutation(ann, 50, True) == 0
    assert quotas.charge_mutation(bob, 1, True) > 0


def test_connections_of_a_tenant_have_a_bound() -> None:
    tenants = Tenants(
        {ACME: {ENABLED: 1.0, "connections_max": 2.0}, QuotaEntity(tenant="zeta"): {ENABLED: 1.0}}
    )
    acme, zeta = tenants.named("acme"), tenants.named("zeta")
    held = TenantConnections()
    first, second, third = (session("User:acme/ann") for _ in range(3))
    held.took(first, acme)
    held.took(second, acme)
    held.took(second, acme)  # it logs in again
    with pytest.raises(errors.PolicyViolation, match="all of its 2 connections"):
        held.took(third, acme)
    held.took(third, zeta)
    held.took(session("User:root"), None)
    assert (held.count("acme"), held.count("zeta")) == (2, 1)
    held.ended(first)
    held.ended(first)
    held.took(third, acme)
    assert (held.count("acme"), held.count("zeta")) == (2, 0)
    for each in (second, third):
        held.ended(each)
    assert held.count("acme") == 0


def test_a_tenant_that_was_full_writes_again_below_its_limit() -> None:
    limits = {"acme": 100.0, "zeta": 50.0}
    assert full_tenants({"acme": 99, "zeta": 10}, limits, ()) == frozenset()
    assert full_tenants({"acme": 100}, limits, ()) == {"acme"}
    assert full_tenants({"acme": 96}, limits, ("acme",)) == {"acme"}
    assert full_tenants({"acme": 94}, limits, ("acme",)) == frozenset()
    assert full_tenants({"acme": 1 << 50}, {}, ("acme",)) == frozenset()


def test_doors_without_a_login_are_a_way_around_tenants() -> None:
    given = {
        "listeners": "PLAIN://127.0.0.1:1,SEC://127.0.0.1:2",
        "listener.security.protocol.map": "PLAIN:PLAINTEXT,SEC:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAIN",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    }
    assert doors_without_login(BrokerConfig.of(given)) == ["listener PLAIN", "the HTTP port"]
    secured = given | {
        "tidelog.http.authentication": "required",
        "listener.security.protocol.map": "PLAIN:SASL_PLAINTEXT,SEC:SASL_PLAINTEXT",
    }
    assert doors_without_login(BrokerConfig.of(secured)) == []


def test_small_changes_are_told_later() -> None:
    assert not worth_telling({}, {}) and worth_telling({}, {"acme": 0}) and worth_telling({"acme": 5}, {})
    assert not worth_telling({"acme": 1 << 30}, {"acme": (1 << 30) + (1 << 20)})
    assert worth_telling({"acme": 1 << 30}, {"acme": (1 << 30) + (1 << 24)})
    assert not worth_telling({"acme": 10}, {"acme": 60_000}) and worth_telling({"acme": 10}, {"acme": 70_000})


def test_the_topics_of_a_full_tenant_are_not_written() -> None:
    gate = Gate()
    operator = session("User:root")
    operator = gate.open("PLAIN", "10.0.0.1:1")
    assert operator.remembers_write("acme.orders"), "everybody may write everything"
    gate.tenants_are_full(frozenset(("acme",)))
    assert not operator.remembers_write("acme.orders"), "what was decided before counts no more"
    assert not gate.may_write(operator, "acme.orders") and not operator.remembers_write("acme.orders")
    for name in ("acme", "acmeX.orders", "zeta.orders", "orders"):
        assert gate.may_write(operator, name) and operator.remembers_write(name)
    assert gate.may_read(operator, "acme.orders")
    assert gate.allows(operator, AclOperation.WRITE, AclResourceType.TOPIC, "acme.orders")
    gate.tenants_are_full(frozenset())
    assert gate.may_write(operator, "acme.orders")


@pytest.mark.parametrize(
    ("labels", "shown"),
    [
        ('{topic="acme.orders"}', True),
        ('{topic="acme.orders",partition="0"}', True),
        ('{group="acme.g",topic="acme.orders",partition="0"}', True),
        ('{tenant="acme"}', True),
        ('{tenant="acme",limit="topics_max"}', True),
        ("", False),
        ('{api="Produce"}', False),
        ('{tenant="acmeX"}', False),
        ('{topic="acmeX.orders"}', False),
        ('{topic="acme"}', False),
        ('{group="plain",topic="acme.orders"}', False),
        ('{group="acme.g",topic="zeta.orders"}', False),
        ('{client_id="x,topic=\\"acme.orders"}', False),
        ('{client_id="\\\\",topic="zeta.orders"}', False),
        ('{topic="zeta.\\",topic=\\"acme."}', False),
    ],
)
def test_series_of_a_tenant(labels: str, shown: bool) -> None:
    assert is_of_tenant(labels, "acme", "acme.") is shown


def test_a_page_of_one_tenant() -> None:
    page = Page(100)
    for name in ("acme.orders", "zeta.orders"):
        page.put("mq_topic_bytes_in_total", 5, name)
    page.put("mq_bytes_in_total", 10)
    page.put_histogram("mq_produce_latency_ms", (1.0,), (1, 1), 1.0)
    text = b"".join(page.families(lambda labels: is_of_tenant(labels, "acme", "acme."))).decode()
    assert 'mq_topic_bytes_in_total{topic="acme.orders"} 5' in text
    assert "zeta" not in text and "mq_bytes_in_total" not in text and "latency" not in text
