"""How clients of one listener are let in: TLS and SASL settings, with what `listener.name.NAME.` changes for it.

`BrokerConfig` has one of these for each listener; `net.tls_files` makes TLS contexts of them, `broker.login` takes
mechanisms and login modules from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tidelog.config.jaas import JaasEntry, parse_jaas
from tidelog.config.oauth import OAUTH_PREFIXES, OauthSettings, oauth_settings
from tidelog.config.setting import Setting, Value
from tidelog.errors import InvalidConfig

PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL = PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("GSSAPI", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
PREFIX = "listener.name."
HTTP_SERVICE = "HTTP/"
"""What the principal of an HTTP server begins with: browsers ask for no other."""
_JAAS = "sasl.jaas.config"
_TLS_VERSIONS = ("TLSv1.2", "TLSv1.3")
_INT_MAX = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Where the broker's certificate, its key and the certificates it trusts come from: files, or PEM text."""

    keystore_location: str | None = None
    keystore_password: str | None = field(default=None, repr=False)
    keystore_type: str = "JKS"
    keystore_certificate_chain: str | None = field(default=None, repr=False)
    keystore_key: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    truststore_location: str | None = None
    truststore_password: str | None = field(default=None, repr=False)
    truststore_type: str = "JKS"
    truststore_certificates: str | None = field(default=None, repr=False)
    client_auth: str = "none"
    enabled_protocols: tuple[str, ...] = _TLS_VERSIONS
    cipher_suites: tuple[str, ...] = ()
    endpoint_identification_algorithm: str = "https"
    allow_dn_changes: bool = False
    allow_san_changes: bool = False

    @property
    def has_certificate(self) -> bool:
        return self.keystore_location is not None or self.keystore_certificate_chain is not None


@dataclass(frozen=True, slots=True)
class KerberosSettings:
    service_name: str = ""
    principal: str | None = None
    """Of the broker; None for any that the keytab has."""
    keytab: str = ""
    rules: tuple[str, ...] = ("DEFAULT",)

    @property
    def realm(self) -> str:
        """The one of the broker's principal."""
        return (self.principal or "").rpartition("@")[2]


@dataclass(frozen=True, slots=True)
class ListenerSecurity:
    protocol: str = PLAINTEXT
    tls: TlsFiles = field(default_factory=TlsFiles)
    principal_mapping_rules: str = "DEFAULT"
    mechanisms: tuple[str, ...] = ()
    jaas: Mapping[str, JaasEntry] = field(default_factory=dict, repr=False)
    """By mechanism."""
    max_reauth_ms: int = 0
    sasl_message_bytes_max: int = 524_288
    oauth: OauthSettings = field(default_factory=OauthSettings)
    kerberos: KerberosSettings = field(default_factory=KerberosSettings)
    connections_max: int = _INT_MAX
    """Of this listener alone."""
    connection_rate_max: int = _INT_MAX
    """New ones in a second, of this listener alone."""

    @property
    def encrypts(self) -> bool:
        return self.protocol.endswith("SSL") or self.protocol == "AMQPS"

    @property
    def of_amqp(self) -> bool:
        return self.protocol in ("AMQP", "AMQPS")

    @property
    def has_login(self) -> bool:
        return self.protocol.startswith("SASL")

    @property
    def negotiates(self) -> bool:
        """Of the HTTP port: whether clients may show a Kerberos ticket."""
        return (self.kerberos.principal or "").startswith(HTTP_SERVICE) and bool(self.kerberos.keytab)

    @property
    def authenticates(self) -> bool:
        """Whether clients must say who they are."""
        return self.has_login or (self.encrypts and self.tls.client_auth == "required")


def split_overrides(texts: Mapping[str, str]) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """(settings of the whole broker, settings of one listener by its name in small letters)"""
    plain: dict[str, str] = {}
    overrides: dict[str, dict[str, str]] = {}
    for name, text in texts.items():
        if name.startswith(PREFIX):
            listener, _, setting = name.removeprefix(PREFIX).partition(".")
            overrides.setdefault(listener, {})[setting] = text
        else:
            plain[name] = text
    return plain, overrides


def override_setting(name: str, settings: Mapping[str, Setting]) -> Setting | None:
    """Which setting `listener.name.LISTENER.<name>` overrides; None when it is none of a listener's."""
    _, base = _split_mechanism(name)
    own = base.startswith(("ssl.", "sasl.", *OAUTH_PREFIXES)) or base in _OF_A_LISTENER
    return settings.get(base) if own else None


def check_override(listener: str, name: str, text: str, settings: Mapping[str, Setting]) -> None:
    """InvalidConfig unless the override acts, or is of a setting that is not built and has its default."""
    whole = f"{PREFIX}{listener}.{name}"
    setting = override_setting(name, settings)
    if setting is None:
        raise InvalidConfig(f"{whole}: no setting of a listener has this name")
    try:
        setting.parse(text)
    except InvalidConfig as problem:
        raise type(problem)(f"{PREFIX}{listener}.: {problem}") from None
    mechanism, base = _split_mechanism(name)
    if not setting.built:
        return
    if base not in _OF_A_LISTENER and not (base in _OF_TLS or base.startswith(OAUTH_PREFIXES)):
        raise InvalidConfig(f"{whole}: {base} is of the whole broker and cannot differ by listener")
    of_mechanism = base == _JAAS or (mechanism == "oauthbearer" and base.startswith(OAUTH_PREFIXES))
    if mechanism and not of_mechanism:
        raise InvalidConfig(f"{whole}: {base} is of the whole listener: set {PREFIX}{listener}.{base}")


def _split_mechanism(name: str) -> tuple[str, str]:
    """(the mechanism in small letters or "", the name of the setting)"""
    for mechanism in MECHANISMS:
        prefix = f"{mechanism.lower()}."
        if name.startswith(prefix):
            return mechanism.lower(), name.removeprefix(prefix)
    return "", name


_OF_A_LISTENER = (
    "connections.max.reauth.ms",
    "max.connections",
    "max.connection.creation.rate",
    "sasl.enabled.mechanisms",
    "sasl.jaas.config",
    "sasl.kerberos.principal.to.local.rules",
    "sasl.kerberos.service.name",
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
    "sasl.login.retry.backoff.max.ms",
    "sasl.login.retry.backoff.ms",
    "sasl.server.max.receive.size",
)
_OF_TLS = (
    "ssl.allow.dn.changes",
    "ssl.allow.san.changes",
    "ssl.cipher.suites",
    "ssl.client.auth",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.principal.mapping.rules",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
)


def listener_security(
    listener: str,
    protocol: str,
    value: Callable[[str], Value],
    overrides: Mapping[str, str],
    settings: Mapping[str, Setting],
) -> ListenerSecurity:
    """`value`: what a setting is for the whole broker."""

    def text(name: str) -> str | None:
        setting_value = settings[name].parse(overrides[name]) if name in overrides else value(name)
        return None if setting_value is None else str(setting_value)

    def of_oauth(name: str) -> Value:
        given = overrides.get(f"oauthbearer.{name}", overrides.get(name))
        return value(name) if given is None else settings[name].parse(given)

    def own_bound(name: str) -> int:
        """Without one of its own a listener has none: the broker's is for all listeners together."""
        setting_value = settings[name].parse(overrides[name]) if name in overrides else _INT_MAX
        assert isinstance(setting_value, int)
        return setting_value

    def entries(name: str) -> tuple[str, ...]:
        setting_value = settings[name].parse(overrides[name]) if name in overrides else value(name)
        assert isinstance(setting_value, tuple)
        return setting_value

    jaas = _jaas(listener, value, overrides)
    security = ListenerSecurity(
        protocol=protocol,
        tls=TlsFiles(
            keystore_location=text("ssl.keystore.location"),
            keystore_password=text("ssl.keystore.password"),
            keystore_type=text("ssl.keystore.type") or "JKS",
            keystore_certificate_chain=text("ssl.keystore.certificate.chain"),
            keystore_key=text("ssl.keystore.key"),
            key_password=text("ssl.key.password"),
            truststore_location=text("ssl.truststore.location"),
            truststore_password=text("ssl.truststore.password"),
            truststore_type=text("ssl.truststore.type") or "JKS",
            truststore_certificates=text("ssl.truststore.certificates"),
            client_auth=text("ssl.client.auth") or "none",
            enabled_protocols=entries("ssl.enabled.protocols"),
            cipher_suites=entries("ssl.cipher.suites"),
            endpoint_identification_algorithm=text("ssl.endpoint.identification.algorithm") or "",
            allow_dn_changes=text("ssl.allow.dn.changes") == "True",
            allow_san_changes=text("ssl.allow.san.changes") == "True",
        ),
        principal_mapping_rules=text("ssl.principal.mapping.rules") or "DEFAULT",
        mechanisms=entries("sasl.enabled.mechanisms"),
        jaas=jaas,
        max_reauth_ms=int(text("connections.max.reauth.ms") or 0),
        sasl_message_bytes_max=int(text("sasl.server.max.receive.size") or 0),
        oauth=oauth_settings(of_oauth),
        kerberos=_kerberos(
            jaas.get("GSSAPI"),
            text("sasl.kerberos.service.name"),
            entries("sasl.kerberos.principal.to.local.rules"),
        ),
        connections_max=own_bound("max.connections"),
        connection_rate_max=own_bound("max.connection.creation.rate"),
    )
    _check(listener, security)
    return security


def _jaas(listener: str, value: Callable[[str], Value], overrides: Mapping[str, str]) -> dict[str, JaasEntry]:
    entries: dict[str, JaasEntry] = {}
    everywhere = overrides.get(_JAAS) or value(_JAAS)
    for mechanism in MECHANISMS:
        name = f"{mechanism.lower()}.{_JAAS}"
        text = overrides.get(name) or everywhere
        if text is not None:
            shown = f"{PREFIX}{listener.lower()}.{name}" if name in overrides else _JAAS
            entries[mechanism] = parse_jaas(str(text), shown)
    return entries


def _kerberos(entry: JaasEntry | None, service_name: str | None, rules: tuple[str, ...]) -> KerberosSettings:
    """`entry` may be of another mechanism, and has no keytab then."""
    options = {} if entry is None else entry.options
    return KerberosSettings(
        service_name or options.get("serviceName", ""),
        options.get("principal"),
        options.get("keyTab", "").removeprefix("FILE:"),
        rules,
    )


def _check(listener: str, security: ListenerSecurity) -> None:
    if security.has_login:
        unbuilt = [name for name in security.mechanisms if name not in MECHANISMS]
        if unbuilt or not security.mechanisms:
            which = ", ".join(unbuilt) or "no mechanism"
            raise InvalidConfig(
                f"listener {listener} offers {which}: set sasl.enabled.mechanisms to some of {', '.join(MECHANISMS)}"
            )
        if "GSSAPI" in security.mechanisms and not (
            security.kerberos.keytab and security.kerberos.service_name
        ):
            raise InvalidConfig(
                f"listener {listener} offers GSSAPI, which needs sasl.kerberos.service.name and a keytab: set "
                f"{PREFIX}{listener.lower()}.gssapi.{_JAAS}="
                "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
                'keyTab="/etc/kafka.keytab" principal="kafka/host@REALM"; or set sasl.enabled.mechanisms to some of '
                f"{', '.join(name for name in MECHANISMS if name != 'GSSAPI')}"
            )
    if security.encrypts:
        if not security.tls.has_certificate:
            raise InvalidConfig(
                f"listener {listener} needs a certificate: set ssl.keystore.location (a PEM or PKCS12 file), or "
                "ssl.keystore.certificate.chain and ssl.keystore.key"
            )
        outdated = [name for name in security.tls.enabled_protocols if name not in _TLS_VERSIONS]
        if outdated:
            raise InvalidConfig(
                f"ssl.enabled.protocols has {', '.join(outdated)}: only {' and '.join(_TLS_VERSIONS)} are safe"
            )
