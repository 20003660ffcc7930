"""DescribeUserScramCredentials (api 50) and AlterUserScramCredentials (51), version 0.

Clients send the salted password; the broker stores the two keys that it derives from it.  Of a credential, answers
contain only the iterations."""

from __future__ import annotations

import asyncio
from collections import Counter

from tidelog import errors
from tidelog.broker.services import Context
from tidelog.metadata.access.access_records import CredentialName
from tidelog.metadata.image.image import Image
from tidelog.net.scram import ITERATIONS_MIN, MECHANISM_CODES, ScramCredential
from tidelog.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tidelog.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

ITERATIONS_MAX = 16_384
NAME_CHARACTERS_MAX = 1_024
SALT_BYTES_MAX = 1_024
CHANGES_A_REQUEST_MAX = 10_000
CHANGES_A_TURN = 500
_MECHANISMS = {code: name for name, code in MECHANISM_CODES.items()}


def describe_user_scram_credentials(
    request: DescribeUserScramCredentialsRequest, context: Context
) -> DescribeUserScramCredentialsResponse:
    image = context.services.image()
    if request.users:
        times = Counter(user.name for user in request.users)
    else:
        times = Counter({user: 1 for users in image.credentials.values() for user in users})
    return DescribeUserScramCredentialsResponse(
        results=[_described(name, count, image) for name, count in times.items()]
    )


def _described(name: str, times: int, image: Image) -> DescribeUserScramCredentialsResult:
    if times > 1:
        return DescribeUserScramCredentialsResult(
            name,
            errors.DuplicateResource.code,
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}",
        )
    held = {code: image.users(mechanism).get(name) for mechanism, code in MECHANISM_CODES.items()}
    infos = [
        CredentialInfo(code, credential.iterations)
        for code, credential in held.items()
        if credential is not None
    ]
    if not infos:
        return DescribeUserScramCredentialsResult(
            name,
            errors.ResourceNotFound.code,
            f"Attempt to describe a user credential that does not exist: {name}",
        )
    return DescribeUserScramCredentialsResult(name, credential_infos=infos)


async def alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, context: Context
) -> AlterUserScramCredentialsResponse:
    """A user whose change is refused stays unchanged; the other users are changed."""
    image = context.services.image()
    changed: list[ScramCredentialDeletion | ScramCredentialUpsertion] = [
        *request.deletions,
        *request.upsertions,
    ]
    names = [change.name for change in changed]
    times = Counter(names)
    problems: dict[str, errors.TidelogError] = {}
    delete: list[CredentialName] = []
    put: dict[CredentialName, ScramCredential] = {}
    for number, change in enumerate(changed, 1):
        if number % CHANGES_A_TURN == 0:
            await asyncio.sleep(0)
        try:
            name = _checked(change.name, change.mechanism, times, len(names))
            if isinstance(change, ScramCredentialUpsertion):
                put[name] = _credential(name, change)
            elif change.name not in image.users(name.mechanism):
                raise errors.ResourceNotFound("Attempt to delete a user credential that does not exist")
            else:
                delete.append(name)
        except errors.TidelogError as problem:
            problems.setdefault(change.name, problem)
    try:
        await context.services.controller.access.alter_credentials(put, delete)
    except errors.TidelogError as problem:
        problems.update({name.user: problem for name in (*put, *delete)})
    return AlterUserScramCredentialsResponse(results=[_result(name, problems.get(name)) for name in times])


def _result(name: str, problem: errors.TidelogError | None) -> AlterUserScramCredentialsResult:
    if problem is None:
        return AlterUserScramCredentialsResult(name, errors.NONE, None)
    return AlterUserScramCredentialsResult(name, problem.code, str(problem))


def _checked(name: str, mechanism: int, times: Counter[str], changes: int) -> CredentialName:
    if changes > CHANGES_A_REQUEST_MAX:
        raise errors.PolicyViolation(f"at most {CHANGES_A_REQUEST_MAX} credentials can be changed at once")
    if times[name] > 1:
        raise errors.DuplicateResource("A user credential cannot be altered twice in the same request")
    if not name:
        raise errors.UnacceptableCredential("Username must not be empty")
    if len(name) > NAME_CHARACTERS_MAX or "\0" in name:
        raise errors.UnacceptableCredential(
            f"Username must have at most {NAME_CHARACTERS_MAX} characters, none of them NUL"
        )
    if mechanism not in _MECHANISMS:
        raise errors.UnsupportedSaslMechanism("Unknown SCRAM mechanism")
    return CredentialName(_MECHANISMS[mechanism], name)


def _credential(name: CredentialName, change: ScramCredentialUpsertion) -> ScramCredential:
    if change.iterations < ITERATIONS_MIN:
        raise errors.UnacceptableCredential("Too few iterations")
    if change.iterations > ITERATIONS_MAX:
        raise errors.UnacceptableCredential("Too many iterations")
    if not change.salted_password or len(change.salt) > SALT_BYTES_MAX:
        raise errors.UnacceptableCredential("The salted password is empty, or the salt too long")
    return ScramCredential.of_salted(
        name.mechanism, bytes(change.salted_password), bytes(change.salt), change.iterations
    )
