"""Kerberos through the system's GSS-API library (MIT, `libgssapi_krb5`), both sides; the security layer of RFC 4752, and
HTTP's Negotiate (RFC 4559).

The library is called through ctypes: it is in every distribution (Debian: libgssapi-krb5-2), and nothing has to be built.
Its calls read files, wait for the disk (replay cache) or for the KDC, so that none of them belongs on the event loop; they
let other threads run.  An object is used by one thread at a time.

Only the krb5 mechanism is taken, and only the layer without protection: TLS protects what follows the log-in, as in
Kafka."""

from __future__ import annotations

import ctypes
import ctypes.util
import hashlib
from functools import lru_cache
from typing import Any

from tidelog.errors import InvalidConfig, SaslAuthenticationFailed

COMPLETE, CONTINUE_NEEDED = 0, 1
MUTUAL, REPLAY, SEQUENCE, INTEGRITY = 2, 4, 8, 32
INDEFINITE = 0xFFFFFFFF
ACCEPT, INITIATE = 2, 1
_ERRORS = 0xFFFF0000
_GSS_CODE, _MECH_CODE = 1, 2
_KRB5 = bytes.fromhex("2a864886f712010202")  # 1.2.840.113554.1.2.2
_SPNEGO = bytes.fromhex("2b0601050502")  # 1.3.6.1.5.5.2
_HOSTBASED = bytes.fromhex("2a864886f71201020104")  # GSS_C_NT_HOSTBASED_SERVICE
_USER_NAME = bytes.fromhex("2a864886f71201020101")  # GSS_C_NT_USER_NAME
MESSAGES_MAX = 8
"""The most messages that one error consists of."""

NO_LAYER = 1
LAYER_BYTES = 4
_OFFER = bytes((NO_LAYER, 0, 0, 0))  # no protection, so no buffers either


class _Buffer(ctypes.Structure):
    _fields_ = (("length", ctypes.c_size_t), ("value", ctypes.c_void_p))


class _Oid(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint32), ("elements", ctypes.c_void_p))


class _OidSet(ctypes.Structure):
    _fields_ = (("count", ctypes.c_size_t), ("elements", ctypes.POINTER(_Oid)))


class _Element(ctypes.Structure):
    _fields_ = (("key", ctypes.c_char_p), ("value", ctypes.c_char_p))


class _Store(ctypes.Structure):
    _fields_ = (("count", ctypes.c_uint32), ("elements", ctypes.POINTER(_Element)))


class GssFailed(SaslAuthenticationFailed):
    """A call of the library failed.  The text is for the log: it names principals and files, and no secret."""


@lru_cache(maxsize=1)
def library() -> Any:
    """InvalidConfig, with the command that installs it, where there is none."""
    name = ctypes.util.find_library("gssapi_krb5") or "libgssapi_krb5.so.2"
    try:
        loaded = ctypes.CDLL(name)
    except OSError as problem:
        raise InvalidConfig(
            "GSSAPI needs MIT Kerberos' library, which is not installed here: apt-get install libgssapi-krb5-2 "
            f"(Red Hat: krb5-libs) ({problem})"
        ) from None
    for function in (
        *("gss_accept_sec_context", "gss_init_sec_context", "gss_acquire_cred_from", "gss_display_name"),
        *("gss_import_name", "gss_wrap", "gss_unwrap", "gss_release_buffer", "gss_release_name"),
        *("gss_release_cred", "gss_delete_sec_context", "gss_display_status"),
        "gss_set_neg_mechs",
    ):
        getattr(loaded, function).restype = ctypes.c_uint32
    return loaded


def _oid(elements: bytes) -> _Oid:
    return _Oid(len(elements), ctypes.cast(ctypes.c_char_p(elements), ctypes.c_void_p))


def _buffer(data: bytes) -> _Buffer:
    return _Buffer(len(data), ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p))


_MECHANISM, _SERVICE, _USER = _oid(_KRB5), _oid(_HOSTBASED), _oid(_USER_NAME)
_BOTH = (_Oid * 2)(_MECHANISM, _oid(_SPNEGO))


def _taken(buffer: _Buffer) -> bytes:
    """Its bytes; the library gets it back."""
    data = ctypes.string_at(buffer.value, buffer.length) if buffer.value else b""
    minor = ctypes.c_uint32()
    library().gss_release_buffer(ctypes.byref(minor), ctypes.byref(buffer))
    return data


def _check(major: int, minor: ctypes.c_uint32, doing: str) -> None:
    if major & _ERRORS:
        texts = [*_texts(major, _GSS_CODE), *_texts(minor.value, _MECH_CODE)]
        raise GssFailed(f"{doing}: {'; '.join(texts)}")


def _texts(code: int, kind: int) -> list[str]:
    if not code:
        return []
    more, minor, texts = ctypes.c_uint32(0), ctypes.c_uint32(), []
    for _ in range(MESSAGES_MAX):
        text = _Buffer()
        library().gss_display_status(
            ctypes.byref(minor),
            ctypes.c_uint32(code),
            ctypes.c_int(kind),
            ctypes.byref(_MECHANISM),
            ctypes.byref(more),
            ctypes.byref(text),
        )
        texts.append(_taken(text).decode(errors="replace"))
        if not more.value:
            break
    return texts


class _Name:
    def __init__(self, text: str, kind: _Oid) -> None:
        self.handle = ctypes.c_void_p()
        minor, data = ctypes.c_uint32(), text.encode()
        major = library().gss_import_name(
            ctypes.byref(minor), ctypes.byref(_buffer(data)), ctypes.byref(kind), ctypes.byref(self.handle)
        )
        _check(major, minor, f"the name {text!r} cannot be read")

    def __del__(self) -> None:
        if self.handle:
            minor = ctypes.c_uint32()
            library().gss_release_name(ctypes.byref(minor), ctypes.byref(self.handle))


class GssCredential:
    """What proves who this side is: keys of a keytab, or tickets of a cache."""

    def __init__(
        self, usage: int, principal: str | None, store: dict[str, str], negotiates: bool = False
    ) -> None:
        """`principal`: None for any that is there.  `store`: keytab, client_keytab, ccache; what it does not name comes from
        where the library looks by itself.  `negotiates`: clients may say that they mean Kerberos, and nothing else."""
        self.handle = ctypes.c_void_p()
        name = None if principal is None else _Name(principal, _USER)
        elements = (_Element * max(1, len(store)))(
            *(_Element(key.encode(), value.encode()) for key, value in store.items())
        )
        krb5 = _OidSet(1, ctypes.pointer(_MECHANISM))
        wanted = _OidSet(2, _BOTH) if negotiates else krb5
        minor = ctypes.c_uint32()
        major = library().gss_acquire_cred_from(
            ctypes.byref(minor),
            None if name is None else name.handle,
            ctypes.c_uint32(INDEFINITE),
            ctypes.byref(wanted),
            ctypes.c_int(usage),
            ctypes.byref(_Store(len(store), elements)),
            ctypes.byref(self.handle),
            None,
            None,
        )
        where = ", ".join(f"{key} {value}" for key, value in store.items()) or "the system's default"
        _check(major, minor, f"no Kerberos credential for {principal or 'any principal'} in {where}")
        if negotiates:
            major = library().gss_set_neg_mechs(ctypes.byref(minor), self.handle, ctypes.byref(krb5))
            _check(major, minor, "the mechanisms of Negotiate cannot be chosen")

    def __del__(self) -> None:
        if self.handle:
            minor = ctypes.c_uint32()
            library().gss_release_cred(ctypes.byref(minor), ctypes.byref(self.handle))


def keytab_credential(keytab: str, principal: str | None) -> GssCredential:
    """The credential of a broker.  Each log-in reads the keytab: a new key counts at once."""
    return GssCredential(ACCEPT, principal, {"keytab": f"FILE:{keytab}"})


def negotiating_credential(keytab: str, principal: str | None) -> GssCredential:
    """The credential of an HTTP port: clients send a plain ticket, or a ticket wrapped in SPNEGO, as browsers do."""
    return GssCredential(ACCEPT, principal, {"keytab": f"FILE:{keytab}"}, negotiates=True)


def client_credential(principal: str | None, keytab: str | None) -> GssCredential:
    """The credential of a client: the tickets of `kinit`, or tickets that this process requests and renews with a keytab."""
    if keytab is None:
        return GssCredential(INITIATE, principal, {})
    own = hashlib.sha256(f"{keytab}\0{principal}".encode()).hexdigest()[:16]
    store = {"client_keytab": f"FILE:{keytab}", "ccache": f"MEMORY:tidelog-{own}"}
    return GssCredential(INITIATE, principal, store)


class _Context:
    def __init__(self) -> None:
        self._handle = ctypes.c_void_p()
        self.established = False

    def __del__(self) -> None:
        if self._handle:
            minor = ctypes.c_uint32()
            library().gss_delete_sec_context(ctypes.byref(minor), ctypes.byref(self._handle), None)

    def wrap(self, data: bytes) -> bytes:
        minor, sealed, wrapped = ctypes.c_uint32(), ctypes.c_int(), _Buffer()
        major = library().gss_wrap(
            ctypes.byref(minor),
            self._handle,
            ctypes.c_int(0),
            ctypes.c_uint32(0),
            ctypes.byref(_buffer(data)),
            ctypes.byref(sealed),
            ctypes.byref(wrapped),
        )
        _check(major, minor, "the security layer cannot be wrapped")
        return _taken(wrapped)

    def unwrap(self, data: bytes) -> bytes:
        minor, sealed, quality, plain = ctypes.c_uint32(), ctypes.c_int(), ctypes.c_uint32(), _Buffer()
        major = library().gss_unwrap(
            ctypes.byref(minor),
            self._handle,
            ctypes.byref(_buffer(data)),
            ctypes.byref(plain),
            ctypes.byref(sealed),
            ctypes.byref(quality),
        )
        _check(major, minor, "the security layer cannot be read")
        if major != COMPLETE:  # an old token, a duplicate, one out of order
            _taken(plain)
            raise GssFailed("the security layer came twice or out of order")
        return _taken(plain)


class _Accepting(_Context):
    """The side of the broker."""

    def __init__(self, credential: GssCredential) -> None:
        super().__init__()
        self._credential = credential
        self._source = ""
        self._has_integrity = False
        self.principal: str | None = None
        """As `alice@REALM` or `alice/host@REALM`."""

    def _accept(self, token: bytes) -> bytes:
        minor, flags = ctypes.c_uint32(), ctypes.c_uint32()
        source, out, mechanism = ctypes.c_void_p(), _Buffer(), ctypes.POINTER(_Oid)()
        major = library().gss_accept_sec_context(
            ctypes.byref(minor),
            ctypes.byref(self._handle),
            self._credential.handle,
            ctypes.byref(_buffer(token)),
            None,  # channel bindings: Kafka's clients send none
            ctypes.byref(source),
            ctypes.byref(mechanism),
            ctypes.byref(out),
            ctypes.byref(flags),
            None,
            None,
        )
        answer = _taken(out)
        try:
            _check(major, minor, "the ticket is refused")
            if major & CONTINUE_NEEDED:
                return answer
            if major != COMPLETE:
                raise GssFailed("the ticket came twice, or is too old")
            used = mechanism.contents
            if ctypes.string_at(used.elements, used.length) != _KRB5:
                raise GssFailed("the client used another mechanism than Kerberos")
            self._has_integrity = bool(flags.value & INTEGRITY)
            self._source = _shown_name(source)
            self.established = True
            return answer
        finally:
            if source:
                library().gss_release_name(ctypes.byref(minor), ctypes.byref(source))


class NegotiateAcceptor(_Accepting):
    """Accepts the ticket of one HTTP request, in one step: a ticket does not authenticate later requests."""

    def respond(self, token: bytes) -> bytes:
        answer = self._accept(token)
        if not self.established:
            raise GssFailed("the ticket takes more than one request")
        self.principal = self._source
        return answer


class Acceptor(_Accepting):
    """SASL: `respond` until `principal` is there."""

    def __init__(self, credential: GssCredential) -> None:
        super().__init__(credential)
        self._offered = False

    def respond(self, token: bytes) -> bytes:
        if not self.established:
            answer = self._accept(token)
            if self.established and not self._has_integrity:
                raise GssFailed("the client wants no integrity, and the security layer needs it")
            if answer or not self.established:
                return answer
            token = b""  # a client that wants no proof of the broker
        if not self._offered:
            if token:
                raise GssFailed("the client sent something in place of an empty message")
            self._offered = True
            return self.wrap(_OFFER)
        check_layer(self.unwrap(token))
        self.principal = self._source
        return b""


def _shown_name(name: ctypes.c_void_p) -> str:
    minor, text = ctypes.c_uint32(), _Buffer()
    major = library().gss_display_name(ctypes.byref(minor), name, ctypes.byref(text), None)
    _check(major, minor, "the client's name cannot be read")
    try:
        return _taken(text).decode()
    except UnicodeDecodeError:
        raise GssFailed("the client's name is not text") from None


class Initiator(_Context):
    """The side of the client: `respond` to what the broker sends, beginning with nothing, until `complete`.  The first
    message alone is what Negotiate needs."""

    def __init__(self, service: str, host: str, credential: GssCredential) -> None:
        super().__init__()
        self._target = _Name(f"{service}@{host}", _SERVICE)
        self._doing = f"no ticket for {service} on {host}"
        self._credential = credential
        self.complete = False

    def respond(self, token: bytes) -> bytes:
        if not self.established:
            return self._initiate(token)
        layers = self.unwrap(token)
        if len(layers) != LAYER_BYTES or not layers[0] & NO_LAYER:
            raise GssFailed("the broker insists on a security layer of its own: TLS takes its place here")
        self.complete = True
        return self.wrap(_OFFER)

    def _initiate(self, token: bytes) -> bytes:
        minor, flags, out = ctypes.c_uint32(), ctypes.c_uint32(), _Buffer()
        major = library().gss_init_sec_context(
            ctypes.byref(minor),
            self._credential.handle,
            ctypes.byref(self._handle),
            self._target.handle,
            ctypes.byref(_MECHANISM),
            ctypes.c_uint32(MUTUAL | SEQUENCE | REPLAY | INTEGRITY),
            ctypes.c_uint32(0),
            None,
            ctypes.byref(_buffer(token)) if token else None,
            None,
            ctypes.byref(out),
            ctypes.byref(flags),
            None,
        )
        answer = _taken(out)
        _check(major, minor, self._doing)
        self.established = major == COMPLETE
        if self.established and not flags.value & MUTUAL:
            raise GssFailed("the broker did not prove who it is")
        return answer


def check_layer(message: bytes) -> None:
    """The client's choice (RFC 4752).  The identity that it asks to act as is ignored, as in Kafka: kafka-python names
    the broker there, and a client is always the principal of its ticket."""
    if len(message) < LAYER_BYTES:
        raise GssFailed("the choice of a security layer is cut off")
    if message[0] != NO_LAYER:
        raise GssFailed("the client chose a security layer that was not offered")


def default_realm() -> str | None:
    """The one of the system's krb5.conf."""
    try:
        krb5 = ctypes.CDLL(ctypes.util.find_library("krb5") or "libkrb5.so.3")
    except OSError:
        return None
    context, realm = ctypes.c_void_p(), ctypes.c_void_p()
    if krb5.krb5_init_context(ctypes.byref(context)):
        return None
    try:
        if krb5.krb5_get_default_realm(context, ctypes.byref(realm)):
            return None
        text = ctypes.string_at(realm.value or 0).decode(errors="replace")
        krb5.krb5_free_default_realm(context, realm)
        return text
    finally:
        krb5.krb5_free_context(context)
