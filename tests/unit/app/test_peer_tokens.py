"""How a broker gets its own token for other brokers, by settings, from a provider over HTTPS."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

pytest.importorskip("cryptography")

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from joserfc.jwk import ECKey, RSAKey

from tests.conformance.certificates import make_certificates
from tests.conformance.token_provider import TokenProvider
from tidelog import errors
from tidelog.app.peer_security import ListenerPeers
from tidelog.config import BrokerConfig
from tidelog.net import token_client

GetToken = Callable[[], str]
RETRIEVER = "org.apache.kafka.common.security.oauthbearer."


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[TokenProvider]:
    make_certificates(tmp_path)
    running = TokenProvider(tmp_path)
    running.start()
    yield running
    running.stop()


def token_of_peers(provider: TokenProvider, **oauth: str) -> GetToken:
    """`oauth`: names after sasl., with _ for each dot."""
    named = {f"sasl.{name.replace('_', '.')}": text for name, text in oauth.items()}
    config = BrokerConfig.of(
        {
            "listeners": "SASL_PLAINTEXT://127.0.0.1:9092",
            "inter.broker.listener.name": "SASL_PLAINTEXT",
            "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": provider.token_url,
            "tidelog.oauthbearer.truststore.location": str(provider.ca),
            **named,
        }
    )
    login = ListenerPeers(lambda: config).login()
    assert login is not None and isinstance(login.token, token_client.ClientCredentials)
    return login.token


def with_secret(provider: TokenProvider, **oauth: str) -> GetToken:
    return token_of_peers(
        provider,
        oauthbearer_client_credentials_client_id="brokers",
        oauthbearer_client_credentials_client_secret="between-brokers",
        **oauth,
    )


def private_key(provider: TokenProvider, algorithm: str, passphrase: str | None = None) -> str:
    """A file with a new key of the client `brokers`, whose public part the provider has."""
    is_rsa = algorithm == "RS256"
    key = rsa.generate_private_key(65537, 2048) if is_rsa else ec.generate_private_key(ec.SECP256R1())
    lock: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if passphrase is not None:
        lock = serialization.BestAvailableEncryption(passphrase.encode())
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, lock)
    path = provider.folder / f"{algorithm}.key"
    path.write_bytes(pem)
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    kind = RSAKey if is_rsa else ECKey
    provider.assertion_keys["brokers"] = kind.import_key(public)
    return str(path)


def claims(provider: TokenProvider) -> dict[str, str]:
    return {
        "oauthbearer_assertion_claim_aud": provider.token_url,
        "oauthbearer_assertion_claim_iss": "brokers",
        "oauthbearer_assertion_claim_sub": "brokers",
    }


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_a_signed_assertion_takes_the_place_of_the_secret(provider: TokenProvider, algorithm: str) -> None:
    token = token_of_peers(
        provider,
        oauthbearer_assertion_private_key_file=private_key(provider, algorithm, "of the key"),
        oauthbearer_assertion_private_key_passphrase="of the key",
        oauthbearer_assertion_algorithm=algorithm,
        oauthbearer_assertion_claim_exp_seconds="120",
        oauthbearer_assertion_claim_nbf_seconds="30",
        oauthbearer_assertion_claim_jti_include="true",
        **claims(provider),
    )
    assert token()
    (proof,) = provider.assertions
    assert proof.header == {"alg": algorithm, "typ": "JWT"}
    assert proof.claims["exp"] - proof.claims["iat"] == 120
    assert proof.claims["iat"] - proof.claims["nbf"] == 30
    assert len(proof.claims["jti"]) == 36
    assert abs(proof.claims["iat"] - time.time()) < 60


def test_claims_of_a_template_are_added(provider: TokenProvider) -> None:
    template = provider.folder / "template.json"
    template.write_text(
        json.dumps({"header": {"kid": "key-7"}, "payload": {"sub": "brokers", "tier": "gold"}})
    )
    given = claims(provider)
    del given["oauthbearer_assertion_claim_sub"]
    token = token_of_peers(
        provider,
        oauthbearer_assertion_private_key_file=private_key(provider, "RS256"),
        oauthbearer_assertion_template_file=str(template),
        **given,
    )
    assert token()
    (proof,) = provider.assertions
    assert proof.header["kid"] == "key-7" and proof.claims["tier"] == "gold"
    assert "jti" not in proof.claims


def test_an_assertion_from_a_file_may_be_the_grant(provider: TokenProvider) -> None:
    """The file is written by something else: here, with what our own signature made."""
    from tidelog.config.oauth import ClientAssertion
    from tidelog.net.client_assertion import assertion_of

    signed = ClientAssertion(
        private_key_file=private_key(provider, "RS256"),
        audience=provider.token_url,
        issuer="brokers",
        subject="brokers",
    )
    (provider.folder / "assertion").write_text(assertion_of(signed, time.time(), "") + "\n")
    token = token_of_peers(
        provider,
        oauthbearer_assertion_file=str(provider.folder / "assertion"),
        oauthbearer_jwt_retriever_class=f"{RETRIEVER}JwtBearerJwtRetriever",
    )
    assert token()
    assert provider.assertions[0].claims["sub"] == "brokers"


def test_a_key_that_does_not_fit_the_algorithm_is_named(provider: TokenProvider) -> None:
    path = private_key(provider, "ES256")
    token = token_of_peers(provider, oauthbearer_assertion_private_key_file=path, **claims(provider))
    with pytest.raises(errors.SaslAuthenticationFailed, match=r"ES256\.key does not fit the algorithm RS256"):
        token()


def test_a_retriever_that_does_not_fit_the_address_is_refused(provider: TokenProvider) -> None:
    with pytest.raises(errors.InvalidConfig, match="FileJwtRetriever, which does not fit the address"):
        with_secret(provider, oauthbearer_jwt_retriever_class=f"{RETRIEVER}FileJwtRetriever")
    with pytest.raises(
        errors.InvalidConfig, match="ClientCredentialsJwtRetriever, which does not fit the file"
    ):
        token_of_peers(
            provider,
            oauthbearer_token_endpoint_url="file:///run/token",
            oauthbearer_jwt_retriever_class=f"{RETRIEVER}ClientCredentialsJwtRetriever",
        )


def test_a_token_is_renewed_by_schedule_and_serves_until_its_end(
    provider: TokenProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [1000.0]
    monkeypatch.setattr(token_client.time, "monotonic", lambda: now_s[0])  # type: ignore[attr-defined]
    provider.lifetime_s = 1000
    token = with_secret(
        provider,
        login_refresh_window_factor="0.5",
        login_refresh_window_jitter="0.0",
        login_refresh_min_period_seconds="10",
        login_refresh_buffer_seconds="20",
        login_retry_backoff_ms="1000",
        login_retry_backoff_max_ms="4000",
    )
    first = token()
    now_s[0] += 499
    assert token() == first and provider.requests["/token"] == 1
    now_s[0] += 2
    assert token() and provider.requests["/token"] == 2
    provider.clients.clear()  # refuses everybody from now on
    second = token()
    now_s[0] += 501
    asked_at = []
    for _ in range(100):  # the token still has 499 s to live
        before = provider.requests["/token"]
        assert token() == second
        if provider.requests["/token"] > before:
            asked_at.append(now_s[0])
        now_s[0] += 0.5
    pauses = [after - before for before, after in pairwise(asked_at)]
    assert pauses[:3] == [1.0, 2.0, 4.0] and set(pauses[3:]) == {4.0}
    now_s[0] += 499
    with pytest.raises(errors.SaslAuthenticationFailed, match="invalid_client"):
        token()
