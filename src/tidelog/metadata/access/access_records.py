"""What is stored about who may do what: ACLs, users' SCRAM credentials, client quotas, delegation tokens.  One JSON
value per key.  Passwords are nowhere: a credential is salted, and a token's HMAC is computed from its id.

Keys:
    acls/DIGEST                     one ACL; the digest is that of its content, so that the same ACL is one key
    credentials/MECHANISM/USER      a user's SCRAM credential
    quotas/ENTITY                   the quotas of one entity, as user=alice&client-id= (an empty name: the default)
    tokens/ID                       a delegation token
    secret                          a random number that only brokers know"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

from tidelog.net.scram import ScramCredential
from tidelog.wire.acls import (
    AclBinding,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
    acl_code,
)
from tidelog.wire.client_quotas import QuotaEntity

ACLS = "acls/"
CREDENTIALS = "credentials/"
QUOTAS = "quotas/"
TOKENS = "tokens/"
SECRET = "secret"
SECRET_BYTES = 32


class CredentialName(NamedTuple):
    mechanism: str
    user: str


class TokenRecord(NamedTuple):
    """`owner`, `requester` and `renewers` are principals as 'User:alice'.  Nobody renews it beyond `max_ms`."""

    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int

    def encode(self) -> bytes:
        return _json(self._asdict())

    @staticmethod
    def decode(value: bytes) -> TokenRecord:
        fields = json.loads(value)
        return TokenRecord(**{**fields, "renewers": tuple(fields["renewers"])})


def encode_acl(binding: AclBinding) -> bytes:
    return _json(binding)


def decode_acl(value: bytes) -> AclBinding:
    kind, pattern, name, principal, host, operation, permission = json.loads(value)
    return AclBinding(
        acl_code(AclResourceType, kind),
        acl_code(AclPatternType, pattern),
        name,
        principal,
        host,
        acl_code(AclOperation, operation),
        acl_code(AclPermission, permission),
    )


def acl_id(binding: AclBinding) -> str:
    return sha256(encode_acl(binding)).hexdigest()[:32]


def acl_key(binding: AclBinding) -> str:
    return ACLS + acl_id(binding)


def encode_credential(credential: ScramCredential) -> bytes:
    salt, iterations, stored_key, server_key = credential
    texts = {"salt": salt, "stored_key": stored_key, "server_key": server_key}
    shown = {name: base64.b64encode(data).decode() for name, data in texts.items()}
    return _json({"iterations": iterations, **shown})


def decode_credential(value: bytes) -> ScramCredential:
    fields = json.loads(value)
    salt, stored, server = (base64.b64decode(fields[name]) for name in ("salt", "stored_key", "server_key"))
    return ScramCredential(salt, fields["iterations"], stored, server)


def credential_key(name: CredentialName) -> str:
    return f"{CREDENTIALS}{name.mechanism}/{name.user}"


def encode_quotas(values: Mapping[str, float]) -> bytes:
    return _json(dict(sorted(values.items())))


def decode_quotas(value: bytes) -> dict[str, float]:
    quotas: dict[str, float] = json.loads(value)
    return quotas


def quota_key(entity: QuotaEntity) -> str:
    return QUOTAS + urlencode(entity.parts())


def quota_entity(rest: str) -> QuotaEntity:
    """From a key without QUOTAS."""
    return QuotaEntity.of(dict(parse_qsl(rest, keep_blank_values=True)))


def token_key(token_id: str) -> str:
    return TOKENS + token_id


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
