"""Builds the objects that decide access from the metadata: authorizer, quotas, credentials, tokens.

Each object is built at first use, and again after a change of its part of the image or of its settings."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TypeVar

from tidelog.access.acls import Authorizer, parse_super_users
from tidelog.access.quotas import Quotas, QuotaWindows
from tidelog.access.scram import ScramCredentials
from tidelog.access.tenants import Tenants
from tidelog.access.tokens import Tokens, TokenSettings
from tidelog.config import BrokerConfig
from tidelog.metadata.access.access_records import SECRET_BYTES
from tidelog.metadata.image.image import Image
from tidelog.net.on_behalf import BROKER
from tidelog.net.scram import ScramCredential

T = TypeVar("T")
NO_QUOTA = (1 << 63) - 1


class Access:
    def __init__(
        self, image: Callable[[], Image], config: Callable[[], BrokerConfig], random: Random
    ) -> None:
        self._image = image
        self._config = config
        self._random = random
        self._secret = b""
        self._swept_ms = 0
        self._made: dict[str, tuple[tuple[object, ...], object]] = {}

    @property
    def authorizer(self) -> Authorizer | None:
        """None: nothing is checked, everybody may do everything."""
        config = self._config()
        if not config.authorizes:
            return None
        acls, super_users = self._image().acls, config.super_users
        everyone = config.allow_everyone_if_no_acl_found

        def make() -> Authorizer:
            return Authorizer(acls.values(), parse_super_users(super_users) | {BROKER}, everyone)

        return self._kept("authorizer", (acls, super_users, everyone), make)

    @property
    def quotas(self) -> Quotas:
        config, stored = self._config(), self._image().quotas
        defaults = config.quota_producer_default, config.quota_consumer_default

        def make() -> Quotas:
            producer, consumer = (None if rate == NO_QUOTA else rate for rate in defaults)
            return Quotas({entity: quota.values for entity, quota in stored.items()}, producer, consumer)

        return self._kept("quotas", (stored, *defaults), make)

    @property
    def tenants(self) -> Tenants:
        stored = self._image().quotas
        return self._kept(
            "tenants",
            (stored,),
            lambda: Tenants({entity: tenant.values for entity, tenant in stored.items()}),
        )

    @property
    def quota_windows(self) -> QuotaWindows:
        config = self._config()
        return QuotaWindows(config.quota_window_num, 1000 * config.quota_window_size_seconds)

    @property
    def mutation_windows(self) -> QuotaWindows:
        config = self._config()
        return QuotaWindows(
            config.controller_quota_window_num, 1000 * config.controller_quota_window_size_seconds
        )

    def credentials(self, mechanism: str) -> ScramCredentials:
        image = self._image()
        users = image.users(mechanism)
        if not image.secret and not self._secret:
            # Until there is a user, and with the user a secret that all brokers share.
            self._secret = self._random.getrandbits(8 * SECRET_BYTES).to_bytes(SECRET_BYTES, "big")
        secret = image.secret or self._secret
        return self._kept(
            f"credentials {mechanism}",
            (users, secret),
            lambda: ScramCredentials(mechanism, users, secret),
        )

    @property
    def secret(self) -> bytes:
        """A secret that only brokers of the cluster know; empty until one of them has made it."""
        return self._image().secret

    def stored_credential(self, mechanism: str, user: str) -> ScramCredential | None:
        return self._image().users(mechanism).get(user)

    @property
    def token_settings(self) -> TokenSettings:
        config = self._config()
        return TokenSettings(
            config.delegation_token_secret_key,
            config.delegation_token_max_lifetime_ms,
            config.delegation_token_expiry_time_ms,
        )

    @property
    def tokens(self) -> Tokens:
        stored, settings = self._image().tokens, self.token_settings
        return self._kept(
            "tokens",
            (stored, settings.secret_key),
            lambda: Tokens(settings, {token_id: token.record for token_id, token in stored.items()}),
        )

    def tokens_to_sweep(self, now_ms: int) -> bool:
        """True once in `delegation.token.expiry.check.interval.ms`: the caller then deletes expired tokens."""
        due = now_ms - self._swept_ms >= self._config().delegation_token_expiry_check_interval_ms
        if due:
            self._swept_ms = now_ms
        return due

    def _kept(self, name: str, made_of: tuple[object, ...], make: Callable[[], T]) -> T:
        held = self._made.get(name)
        if held is None or not all(
            now is then or _same(now, then) for now, then in zip(made_of, held[0], strict=True)
        ):
            held = self._made[name] = (made_of, make())
        return held[1]  # type: ignore[return-value]  # what is kept under a name is always of one type


def _same(now: object, then: object) -> bool:
    """Settings compare by value; the image's maps are only the same when they are the same object."""
    return isinstance(now, str | int | bytes) and now == then
