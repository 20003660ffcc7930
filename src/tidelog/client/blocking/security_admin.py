"""The blocking admin client's part for ACLs, users, quotas and delegation tokens."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from tidelog.client.admin import admin
from tidelog.client.admin.security_admin import DelegationToken
from tidelog.net.scram import ITERATIONS_DEFAULT
from tidelog.wire.acls import AclBinding, AclFilter
from tidelog.wire.client_quotas import QuotaEntity

T = TypeVar("T")


class BlockingSecurityAdmin:
    _core: admin.Admin

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        raise AssertionError("the admin client says how")

    def describe_acls(self, wanted: AclFilter | None = None) -> list[AclBinding]:
        """All ACLs, or those that the filter lets through.

        rules = admin.describe_acls(AclFilter(principal="User:alice"))
        """
        return self._run(self._core.describe_acls(wanted))

    def create_acls(self, bindings: AclBinding | Iterable[AclBinding]) -> None:
        """An ACL that is there already is no error.

        admin.create_acls(
            AclBinding(
                AclResourceType.TOPIC,
                AclPatternType.LITERAL,
                "orders",
                "User:alice",
                "*",
                AclOperation.READ,
                AclPermission.ALLOW,
            )
        )
        """
        self._run(self._core.create_acls(bindings))

    def delete_acls(self, filters: AclFilter | Iterable[AclFilter]) -> list[AclBinding]:
        """Deletes what any of the filters lets through, and returns it.

        gone = admin.delete_acls(AclFilter(principal="User:alice"))
        """
        return self._run(self._core.delete_acls(filters))

    def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None
    ) -> dict[str, dict[str, int]]:
        """The SCRAM mechanisms of all users, or of these users, each with the iterations of its password.

        mechanisms = (admin.describe_user_scram_credentials(["alice"]))["alice"]
        """
        return self._run(self._core.describe_user_scram_credentials(users))

    def alter_user_scram_credentials(
        self,
        passwords: Mapping[str, str | None],
        *,
        mechanism: str = "SCRAM-SHA-512",
        iterations: int = ITERATIONS_DEFAULT,
    ) -> None:
        """Sets the password of each user for one mechanism; None takes it away.  Only its salted form is sent.

        admin.alter_user_scram_credentials({"alice": "correct horse battery staple"})
        """
        self._run(
            self._core.alter_user_scram_credentials(passwords, mechanism=mechanism, iterations=iterations)
        )

    def describe_client_quotas(
        self, entity: QuotaEntity | None = None, *, strict: bool = False
    ) -> dict[QuotaEntity, dict[str, float]]:
        """All quotas, or those of entities with the parts that `entity` has; `strict`: with no others.

        quotas = admin.describe_client_quotas(QuotaEntity(user="alice"))
        """
        return self._run(self._core.describe_client_quotas(entity, strict=strict))

    def alter_client_quotas(
        self, changes: Mapping[QuotaEntity, Mapping[str, float | None]], *, validate_only: bool = False
    ) -> None:
        """Sets what is named and leaves the rest; None takes a quota away.

        admin.alter_client_quotas({QuotaEntity(user="alice"): {"producer_byte_rate": 1_048_576}})
        """
        self._run(self._core.alter_client_quotas(changes, validate_only=validate_only))

    def create_delegation_token(
        self, *, owner: str | None = None, renewers: Iterable[str] = (), max_lifetime_ms: int = -1
    ) -> DelegationToken:
        """For the user that is logged in, or for `owner`, if that is allowed.

        token = admin.create_delegation_token(renewers=["User:scheduler"])
        """
        return self._run(
            self._core.create_delegation_token(
                owner=owner, renewers=renewers, max_lifetime_ms=max_lifetime_ms
            )
        )

    def renew_delegation_token(self, hmac: bytes, *, period_ms: int = -1) -> int:
        """Until when the token is valid now.

        expires_ms = admin.renew_delegation_token(token.hmac)
        """
        return self._run(self._core.renew_delegation_token(hmac, period_ms=period_ms))

    def expire_delegation_token(self, hmac: bytes, *, period_ms: int = -1) -> int:
        """Ends the token after `period_ms`, or at once; returns when.

        admin.expire_delegation_token(token.hmac)
        """
        return self._run(self._core.expire_delegation_token(hmac, period_ms=period_ms))

    def describe_delegation_tokens(self, owners: Iterable[str] | None = None) -> list[DelegationToken]:
        """The delegation tokens that the user may see, or only those of these owners.

        tokens = admin.describe_delegation_tokens(["User:alice"])
        """
        return self._run(self._core.describe_delegation_tokens(owners))
