"""Tenants as the metadata have them: the entity of client quotas that a tenant is stored as, its limits, and what is created
within them.  Pure.

Tenant `acme` owns every topic, group, transactional id and subject whose name begins with `acme.`, and the users named
`acme/...`.  It is the quota entity `tenant=acme`: the key `enabled` says that the tenant exists, the other keys are its
limits, and a key `member:PRINCIPAL` makes a further principal its user.  A name of a tenant has neither '.' nor '_', so the
tenant of a topic can be read from the topic's name, and names of different tenants never collide in metrics."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Any

from tidelog.config import TopicConfig
from tidelog.errors import InvalidRequest, PolicyViolation
from tidelog.metadata.image.image import Image
from tidelog.metadata.records import tenant_key
from tidelog.metadata.store import ABSENT, Compare, Operation, Put
from tidelog.wire.client_quotas import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    QuotaEntity,
)

ENABLED = "enabled"
MEMBER = "member:"
TOPICS_MAX = "topics_max"
PARTITIONS_MAX = "partitions_max"
STORED_BYTES_MAX = "stored_bytes_max"
RETENTION_MS_MAX = "retention_ms_max"
RETENTION_BYTES_MAX = "retention_bytes_max"
CONNECTIONS_MAX = "connections_max"
RATES = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE)
LIMITS = (
    TOPICS_MAX,
    PARTITIONS_MAX,
    STORED_BYTES_MAX,
    RETENTION_MS_MAX,
    RETENTION_BYTES_MAX,
    CONNECTIONS_MAX,
    *RATES,
)
"""The keys that `tidelog tenants limits` sets."""
SEPARATOR = "."
USER_SEPARATOR = "/"

_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9-]{0,62}")
_LAST = "\U0010ffff"
_NUMBER_MAX = float(1 << 62)
_MEMBER_KINDS = ("User:", "Group:")
_MEMBER_CHARACTERS_MAX = 1_024


def is_tenant_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def check_tenant_name(name: str) -> None:
    if not is_tenant_name(name):
        raise InvalidRequest(
            f"Tenant name {name[:100]!r} is invalid: a name has 1 to 63 ASCII letters, digits and '-', and begins with a "
            "letter or a digit"
        )


def prefix_of(tenant: str) -> str:
    return tenant + SEPARATOR


def limits_of(image: Image, tenant: str) -> Mapping[str, float] | None:
    """The values of the tenant's entity; None: there is no such tenant."""
    stored = image.quotas.get(QuotaEntity(tenant=tenant))
    return None if stored is None else stored.values


def tenant_of_name(image: Image, name: str) -> str | None:
    """The tenant that owns the topic, group or transactional id of this name."""
    tenant, separator, _ = name.partition(SEPARATOR)
    return tenant if separator and QuotaEntity(tenant=tenant) in image.quotas else None


def topics_of(image: Image, tenant: str) -> list[str]:
    names, prefix = image.topics.sorted_keys(), prefix_of(tenant)
    return list(names[bisect_left(names, prefix) : bisect_left(names, prefix + _LAST)])


def check_value(key: str, value: float) -> None:
    """InvalidRequest when a tenant cannot have this key, or not this value."""
    if key == ENABLED or key.startswith(MEMBER):
        if value != 1:
            raise InvalidRequest(f"{key} of a tenant is 1, or removed")
        member = key.removeprefix(MEMBER)
        if key != ENABLED and (
            not member.startswith(_MEMBER_KINDS) or not 5 < len(member) <= _MEMBER_CHARACTERS_MAX
        ):
            raise InvalidRequest(
                f"{member[:100]!r} cannot be a member of a tenant: name a principal as User:bob or Group:staff"
            )
        return
    if key not in LIMITS:
        raise InvalidRequest(f"Invalid configuration key {key}: a tenant has {', '.join(LIMITS)}")
    if key in (REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE) and 0 < value <= _NUMBER_MAX:
        return
    if key in RATES and value <= 0:
        raise InvalidRequest(f"{key} of a tenant must be greater than 0, not {value}")
    if math.isnan(value) or not 0 <= value <= _NUMBER_MAX or value != int(value):
        raise InvalidRequest(f"{key} of a tenant must be a whole number of 0 or more, not {value}")


def check_change(
    image: Image, tenant: str, before: Mapping[str, float] | None, after: Mapping[str, float]
) -> None:
    """What a tenant's values may become; `after` is empty for its end."""
    if before is None and ENABLED not in after:
        raise InvalidRequest(
            f"Tenant {tenant!r} does not exist: create it with `tidelog tenants create {tenant}`"
        )
    if before is not None and ENABLED not in after:
        _check_empty(image, tenant)
    for key in after:
        if key.startswith(MEMBER):
            _check_member(image, tenant, key)


def _check_empty(image: Image, tenant: str) -> None:
    remains = [
        f"{number} {noun}"
        for number, noun in (
            (len(topics_of(image, tenant)), "topics"),
            (len(users_of(image, tenant)), "users"),
            (sum(1 for _ in acls_of(image, tenant)), "ACLs"),
        )
        if number
    ]
    if remains:
        raise PolicyViolation(
            f"Tenant {tenant!r} is not empty: it has {', '.join(remains)}.  Delete them first, or use "
            f"`tidelog tenants delete {tenant} --with-data`"
        )


def _check_member(image: Image, tenant: str, key: str) -> None:
    principal = key.removeprefix(MEMBER)
    owner, separator, _ = principal.partition(":")[2].partition(USER_SEPARATOR)
    if separator and is_tenant_name(owner) and owner != tenant:
        raise InvalidRequest(f"{principal} is a user of tenant {owner!r} by name")
    for entity, stored in image.quotas.items():
        if entity.tenant is not None and entity.tenant != tenant and key in stored.values:
            raise InvalidRequest(
                f"{principal} is a member of another tenant: a principal has one tenant at most"
            )


def users_of(image: Image, tenant: str) -> list[str]:
    """The users with a password whose names begin with the tenant's."""
    prefix = tenant + USER_SEPARATOR
    return sorted({user for users in image.credentials.values() for user in users if user.startswith(prefix)})


def acls_of(image: Image, tenant: str) -> Iterable[Any]:
    """The ACLs of the tenant's users by name, and those on what it owns."""
    prefix, users = prefix_of(tenant), f"User:{tenant}{USER_SEPARATOR}"
    return (
        acl for acl in image.acls.values() if acl.name.startswith(prefix) or acl.principal.startswith(users)
    )


_CEILINGS = {RETENTION_MS_MAX: "retention.ms", RETENTION_BYTES_MAX: "retention.bytes"}


def ceilings_of(image: Image, topic: str) -> dict[str, int]:
    """What the topic's tenant allows at most, by setting of the topic."""
    tenant = tenant_of_name(image, topic)
    limits = {} if tenant is None else limits_of(image, tenant) or {}
    return {setting: int(limits[key]) for key, setting in _CEILINGS.items() if key in limits}


def exceeds(value: int, ceiling: int) -> bool:
    """-1 keeps records without end."""
    return value < 0 or value > ceiling


def within_ceilings(config: TopicConfig, ceilings: Mapping[str, int]) -> TopicConfig:
    """The settings that the topic has in effect: defaults, and settings from before the ceiling, end at the ceiling."""
    held = {setting: getattr(config, setting.replace(".", "_")) for setting in ceilings}
    lower = {
        setting: ceilings[setting] for setting, value in held.items() if exceeds(value, ceilings[setting])
    }
    return config.changed(lower) if lower else config


def check_ceilings(
    image: Image,
    topic: str,
    before: Mapping[str, str | None],
    after: Mapping[str, str | None],
    parsed: TopicConfig,
) -> None:
    """Raises PolicyViolation if a setting that changes is above the ceiling of the topic's tenant."""
    for setting, ceiling in ceilings_of(image, topic).items():
        value = getattr(parsed, setting.replace(".", "_"))
        if setting in after and after[setting] != before.get(setting) and exceeds(value, ceiling):
            raise PolicyViolation(
                f"Tenant {tenant_of_name(image, topic)!r} has {setting} of {ceiling} at most, not {value}: set less, or "
                "ask the operator for a higher limit"
            )


class CreationLimits:
    """What one request may create, by tenant; counts what earlier topics of the same request take."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self._used: dict[str, tuple[int, int]] = {}

    def write(self, compare: list[Compare], then: list[Operation]) -> None:
        """Adds each tenant's key to the transaction: of simultaneous creations, the later ones decide again."""
        for tenant in self._used:
            key = tenant_key(tenant)
            compare.append(Compare(key, self._image.tenant_creations.get(tenant, ABSENT)))
            then.append(Put(key, b"created"))

    def take(self, topic: str, topics: int, partitions: int) -> None:
        """Raises PolicyViolation, and takes nothing, when the tenant has no room for these topics and partitions."""
        tenant = tenant_of_name(self._image, topic)
        if tenant is None:
            return
        if tenant not in self._used:
            self._used[tenant] = _used(self._image, tenant)
        topics_then, partitions_then = self._used[tenant][0] + topics, self._used[tenant][1] + partitions
        limits = limits_of(self._image, tenant) or {}
        _check_room(tenant, TOPICS_MAX, topics_then, "topics", limits)
        _check_room(tenant, PARTITIONS_MAX, partitions_then, "partitions", limits)
        self._used[tenant] = topics_then, partitions_then


def _used(image: Image, tenant: str) -> tuple[int, int]:
    names = topics_of(image, tenant)
    return len(names), sum(len(image.topics[name].partitions) for name in names)


def _check_room(tenant: str, key: str, number: int, noun: str, limits: Mapping[str, float]) -> None:
    limit = limits.get(key)
    if limit is not None and number > limit:
        raise PolicyViolation(
            f"Tenant {tenant!r} would have {number} {noun}, and its limit {key} is {int(limit)}: delete some, or ask the "
            "operator for a higher limit"
        )
