"""Who sends a request to a worker, and what they may do: the users are those of the brokers.

A worker logs in to the brokers with the name and password, or the token, of the request.  Users who may read the topic of
settings may read connectors, and users who may write to it may change them.  Verdicts are kept for a short time, attempts
are bounded, and an address that keeps failing as a user is refused without a look."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import logging
import secrets
from collections import Counter, OrderedDict, deque
from dataclasses import replace
from typing import NamedTuple

from starlette.requests import Request

from tidelog import errors
from tidelog.aio import Security
from tidelog.client.admin.topics import topic_operations
from tidelog.client.cluster.addresses import parse_addresses
from tidelog.client.cluster.cluster import Cluster
from tidelog.client.cluster.options import ConnectionOptions
from tidelog.client.environment import Environment
from tidelog.connect.rest.changes import RequestRefused
from tidelog.connect.state.store import WorkerGroup
from tidelog.logs import SparingLog
from tidelog.wire.acls import AclOperation

log = logging.getLogger("tidelog.connect")
sparing = SparingLog(log)

VERDICT_S = 30.0
VERDICTS_MAX = 1_000
FAILURES_MAX = 5
FAILURES_WITHIN_S = 60.0
FAILING_MAX = 10_000
ATTEMPTS_MAX = 4
ATTEMPTS_OF_ADDRESS_MAX = 16
ATTEMPT_MS = 10_000
LOGIN_BYTES_MAX = 16_384
CHALLENGE = {"WWW-Authenticate": 'Basic realm="Tidelog", charset="UTF-8", Bearer realm="Tidelog"'}
WORDS = "a login is needed: the user name and password, or the token, are missing or wrong"
OPEN_PATHS = frozenset(("/health",))
WITH_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


class Verdict(NamedTuple):
    user: str
    operations: frozenset[AclOperation]
    """On the topic of settings."""
    until_s: float


class WorkerUsers:
    def __init__(self, options: WorkerGroup) -> None:
        """`options.security` logs in: its mechanism is the one that users log in with."""
        self._options = options
        self._key = secrets.token_bytes(32)
        self._verdicts: OrderedDict[bytes, Verdict] = OrderedDict()
        self._failures: OrderedDict[tuple[str, str], deque[float]] = OrderedDict()
        self._attempts = asyncio.Semaphore(ATTEMPTS_MAX)
        self._waiting: Counter[str] = Counter()

    async def check(self, request: Request) -> None:
        """Raises RequestRefused unless the user of the request may send it."""
        if request.url.path in OPEN_PATHS:
            return
        given = request.headers.get("authorization", "")
        if not given:
            raise _challenge()
        host = request.client.host if request.client is not None else "unknown"
        verdict = await self._verdict(host, given)
        needed = AclOperation.READ if request.method in ("GET", "HEAD") else AclOperation.WRITE
        if needed not in verdict.operations:
            topic = self._options.configs
            sparing.warning(
                host, "refused %s %s of %s at %s", request.method, request.url.path, verdict.user, host
            )
            raise RequestRefused(
                403, f"{verdict.user} may not do this: it takes {needed.name} on the topic {topic}"
            )
        if needed is AclOperation.WRITE:
            log.info("%s %s by %s at %s", request.method, request.url.path, verdict.user, host)

    async def _verdict(self, host: str, given: str) -> Verdict:
        now_s = asyncio.get_running_loop().time()
        digest = hmac.digest(self._key, given.encode("utf-8", "replace"), "sha256")
        kept = self._verdicts.get(digest)
        if kept is not None and kept.until_s > now_s:
            return kept
        user, security = self._security_of(given)
        failures = self._failures.get((host, user), ())
        if sum(now_s - failed_s < FAILURES_WITHIN_S for failed_s in failures) >= FAILURES_MAX:
            raise _challenge()
        if self._waiting[host] >= ATTEMPTS_OF_ADDRESS_MAX:
            raise RequestRefused(429, "too many log-ins of this address are under way: try again")
        self._waiting[host] += 1
        try:
            async with self._attempts:
                operations = await self._log_in(security)
        except errors.SaslAuthenticationFailed as problem:
            self._failed(host, user)
            sparing.warning(host, "refused the login of %r at %s: %s", user[:100], host, problem)
            raise _challenge() from None
        finally:
            self._waiting[host] -= 1
            if not self._waiting[host]:
                del self._waiting[host]
        verdict = Verdict(user, operations, asyncio.get_running_loop().time() + VERDICT_S)
        self._verdicts[digest] = verdict
        if len(self._verdicts) > VERDICTS_MAX:
            self._verdicts.popitem(last=False)
        return verdict

    async def _log_in(self, security: Security) -> frozenset[AclOperation]:
        options = ConnectionOptions(
            client_id=f"{self._options.group}-login", request_timeout_ms=ATTEMPT_MS, security=security
        )
        cluster = Cluster(parse_addresses(self._options.bootstrap_servers), options, Environment.system())
        try:
            await cluster.open()
            return await topic_operations(cluster, self._options.configs)
        finally:
            await cluster.close()

    def _security_of(self, given: str) -> tuple[str, Security]:
        """(the user's name, how to log in as this user)"""
        own = self._options.security
        assert own is not None
        scheme, _, proof = given.partition(" ")
        scheme, proof = scheme.lower(), proof.strip()
        bare = replace(own, mechanism=None, username=None, password=None, token=None)
        if len(proof) > LOGIN_BYTES_MAX:
            raise _challenge()
        if scheme == "bearer" and proof:
            return "a token", replace(bare, mechanism="OAUTHBEARER", token=lambda: proof)
        if scheme != "basic":
            raise _challenge()
        try:
            user, colon, password = base64.b64decode(proof, validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            raise _challenge() from None
        if not colon or not user or "\0" in user + password:
            raise _challenge()
        mechanism = own.mechanism if own.mechanism in WITH_PASSWORD else "SCRAM-SHA-512"
        return user, replace(bare, mechanism=mechanism, username=user, password=password)

    def _failed(self, host: str, user: str) -> None:
        times = self._failures.setdefault((host, user), deque(maxlen=FAILURES_MAX))
        self._failures.move_to_end((host, user))
        times.append(asyncio.get_running_loop().time())
        if len(self._failures) > FAILING_MAX:
            self._failures.popitem(last=False)


def _challenge() -> RequestRefused:
    return RequestRefused(401, WORDS, CHALLENGE)
