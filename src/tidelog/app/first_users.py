"""Adds users to the metadata before a broker registers, so that brokers whose listener wants a log-in can log in to each
other from the first start on.  `Broker.start` calls this; users that are there already stay as they are."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence

from tidelog.config.first_users import FirstUser
from tidelog.metadata.access.access_records import CredentialName
from tidelog.metadata.controller import Controller
from tidelog.net.scram import SALT_BYTES, ScramCredential


async def add_first_users(controller: Controller, users: Sequence[FirstUser]) -> frozenset[CredentialName]:
    """Returns the credentials that were added by this broker."""
    image = controller.image
    missing = [user for user in users if user.name not in image.users(user.mechanism)]
    if not missing:
        return frozenset()
    credentials = await asyncio.to_thread(_credentials, missing)
    return await controller.access.add_credentials(credentials)


def _credentials(users: Sequence[FirstUser]) -> dict[CredentialName, ScramCredential]:
    return {
        CredentialName(user.mechanism, user.name): ScramCredential.of_password(
            user.mechanism, user.password, secrets.token_bytes(SALT_BYTES), user.iterations
        )
        for user in users
    }
