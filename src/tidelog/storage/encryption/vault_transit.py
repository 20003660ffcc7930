"""Keys in the transit engine of HashiCorp Vault or OpenBao: the server wraps and unwraps data keys.

Only the calls that are documented for both: encrypt, decrypt, rewrap through these two, and the keys themselves."""

from __future__ import annotations

import base64
import json
import ssl
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

from tidelog.storage.encryption.key_service import KeyGone, KeyUnavailable

TIMEOUT_S = 5.0
_ANSWER_BYTES_MAX = 1 << 20


class VaultTransit:
    local = False

    def __init__(self, url: str, token_file: str, mount: str = "transit", ca_file: str | None = None) -> None:
        self._url = url.rstrip("/")
        self._token_file = token_file
        self._mount = mount.strip("/")
        self._ca_file = ca_file

    def newest_version(self, name: str) -> int:
        return int(self._call("GET", f"keys/{quote(name)}", name=name)["latest_version"])

    def wrap(self, name: str, plain: bytes, context: bytes) -> tuple[int, str]:
        request = {"plaintext": _text(plain), "associated_data": _text(context)}
        wrapped = str(self._call("POST", f"encrypt/{quote(name)}", request, name)["ciphertext"])
        return _version(wrapped), wrapped

    def unwrap(self, name: str, wrapped: str, context: bytes) -> bytes:
        request = {"ciphertext": wrapped, "associated_data": _text(context)}
        return base64.b64decode(self._call("POST", f"decrypt/{quote(name)}", request, name)["plaintext"])

    def create(self, name: str) -> None:
        self._call("POST", f"keys/{quote(name)}", {"type": "aes256-gcm96"}, name)

    def rotate(self, name: str) -> int:
        self._call("POST", f"keys/{quote(name)}/rotate", {}, name)
        return self.newest_version(name)

    def delete(self, name: str) -> None:
        self._call("POST", f"keys/{quote(name)}/config", {"deletion_allowed": True}, name)
        self._call("DELETE", f"keys/{quote(name)}", name=name)

    def names(self) -> list[str]:
        try:
            return sorted(self._call("GET", "keys?list=true")["keys"])
        except KeyGone:
            return []  # no key yet

    def _call(
        self, method: str, path: str, body: dict[str, Any] | None = None, name: str = ""
    ) -> dict[str, Any]:
        """`data` of the answer."""
        url = f"{self._url}/v1/{self._mount}/{path}"
        headers = {"X-Vault-Token": self._token(), "Content-Type": "application/json"}
        request = Request(url, None if body is None else json.dumps(body).encode(), headers, method=method)
        try:
            context = ssl.create_default_context(cafile=self._ca_file) if url.startswith("https:") else None
            with urlopen(request, timeout=TIMEOUT_S, context=context) as answer:
                text = answer.read(_ANSWER_BYTES_MAX)
            data = json.loads(text).get("data") if text else {}
            return data if isinstance(data, dict) else {}
        except HTTPError as problem:
            raise self._refused(problem, name) from None
        except (URLError, OSError, ValueError) as problem:
            raise KeyUnavailable(
                f"Vault at {self._url} cannot be reached ({problem}): vault:{name} is not available until it is"
            ) from None

    def _refused(self, problem: HTTPError, name: str) -> KeyUnavailable:
        text = problem.read(_ANSWER_BYTES_MAX).decode(errors="replace")
        try:
            reasons = "; ".join(map(str, json.loads(text)["errors"]))
        except (ValueError, KeyError, TypeError):
            reasons = text[:200]
        # Vault answers 404 for a key that is not there, and 400 where it is asked to use one.
        if problem.code == 404 or "encryption key not found" in reasons:
            return KeyGone(f"there is no key vault:{name} at {self._url}/v1/{self._mount}")
        return KeyUnavailable(
            f"Vault at {self._url} refused to use vault:{name} ({problem.code} {reasons}): check its state, and the policy "
            f"of the token in {self._token_file}"
        )

    def _token(self) -> str:
        """Read each time: an agent renews it."""
        try:
            with open(self._token_file, encoding="ascii") as file:
                return file.read().strip()
        except (OSError, UnicodeDecodeError) as problem:
            raise KeyUnavailable(
                f"the token file {self._token_file} cannot be read ({problem}): restore it"
            ) from None


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _version(wrapped: str) -> int:
    """The key version in a wrapped key: 3 in `vault:v3:...`."""
    try:
        return int(wrapped.split(":")[1].removeprefix("v"))
    except (IndexError, ValueError):
        raise KeyUnavailable(
            f"Vault answered with a ciphertext without a version: {wrapped[:24]!r}"
        ) from None
