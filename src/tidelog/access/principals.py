"""Who a connection belongs to: principals as 'User:alice', and the rules that make short names out of certificate
subjects (`ssl.principal.mapping.rules`) and Kerberos principals (`sasl.kerberos.principal.to.local.rules`).  Pure.

Rules are Java's regular expressions in Kafka.  Here they are Python's, which read the same but for rarities; groups are
$1 in the replacement as in Java."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from tidelog.errors import InvalidConfig, InvalidRequest

USER = "User"
GROUP = "Group"
ANONYMOUS = "User:ANONYMOUS"
RULES_BYTES_MAX = 65_536
NAME_BYTES_MAX = 8_192


class Principal(NamedTuple):
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    @staticmethod
    def parse(text: str) -> Principal:
        """InvalidRequest in Kafka's words; the name may have colons of its own."""
        kind, colon, name = text.partition(":")
        if not colon:
            raise InvalidRequest(
                f"Could not parse principal from `{text}` "
                "(no colon is present separating the principal type from the principal name)"
            )
        return Principal(kind, name)


# How Java writes the attributes of a subject: by keyword, or by number with the value in DER (tag given).
_KEYWORDS = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "userId": "UID",
}
_NUMBERS = {"emailAddress": ("1.2.840.113549.1.9.1", 0x16), "serialNumber": ("2.5.4.5", 0x13)}
_SHORT_DER = 127


def distinguished_name(subject: Iterable[Iterable[tuple[str, str]]]) -> str:
    """The subject of `ssl.SSLSocket.getpeercert()` as Kafka's rules see it (RFC 2253, the last name first)."""
    names = ["+".join(_attribute(*pair) for pair in pairs) for pairs in subject]
    return ",".join(reversed(names))


def _attribute(name: str, value: str) -> str:
    number = _NUMBERS.get(name)
    data = value.encode()
    if number is not None and len(data) <= _SHORT_DER:
        return f"{number[0]}=#{bytes((number[1], len(data))).hex()}{data.hex()}"
    escaped = re.sub(r'([,+"\\<>;])', r"\\\1", value)
    if escaped[:1] in ("#", " "):
        escaped = "\\" + escaped
    if value[-1:] == " " and len(value) > 1:
        escaped = escaped[:-1] + "\\ "
    return f"{_KEYWORDS.get(name, name)}={escaped}"


class NoRuleApplies(Exception):
    """The name is nobody's: the connection is refused."""


# Certificates

_RULE = re.compile(r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)")
_JAVA_NAMED = re.compile(r"\(\?<(?=[A-Za-z])")
_GROUP = re.compile(r"\$(\d+)")
_BETWEEN = re.compile(r"\s*(?:,\s*|$)")


class _Rule(NamedTuple):
    """`pattern` None: DEFAULT, the whole name as it is."""

    pattern: re.Pattern[str] | None
    replace: Callable[[re.Match[str]], str]
    case: str

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        result = self.pattern.sub(self.replace, name)
        return result.lower() if self.case == "L" else result.upper() if self.case == "U" else result


class SslPrincipalMapper:
    def __init__(self, rules: str | None = "DEFAULT") -> None:
        """InvalidConfig names the rule that is wrong."""
        self._rules = _parse_ssl_rules((rules or "DEFAULT").strip())

    def name_of(self, distinguished_name: str) -> str:
        """The user behind a certificate's subject, by the first rule that matches all of it."""
        for rule in self._rules:
            if len(distinguished_name) > NAME_BYTES_MAX:
                break
            name = rule.apply(distinguished_name)
            if name is not None:
                return name
        raise NoRuleApplies(f"no rule of ssl.principal.mapping.rules applies to {distinguished_name[:200]!r}")


def _parse_ssl_rules(text: str) -> list[_Rule]:
    if len(text) > RULES_BYTES_MAX:
        raise InvalidConfig("ssl.principal.mapping.rules is too long")
    rules = []
    at = 0
    while at < len(text):
        rule = _RULE.match(text, at)
        end = at if rule is None else rule.end()
        between = _BETWEEN.match(text, end)
        if between is None or between.end() == at:
            raise InvalidConfig(f"ssl.principal.mapping.rules: Invalid rule: {text[at : at + 200]}")
        if rule is not None:  # empty rules are passed over
            rules.append(_ssl_rule(rule))
        at = between.end()
    return rules


def _ssl_rule(rule: re.Match[str]) -> _Rule:
    if rule[1]:
        return _Rule(None, lambda match: "", "")
    pattern = _compiled(rule[2], "ssl.principal.mapping.rules")
    return _Rule(pattern, _replacing(rule[3], pattern.groups), rule[4])


def _compiled(pattern: str, setting: str) -> re.Pattern[str]:
    try:
        return re.compile(_JAVA_NAMED.sub("(?P<", pattern))
    except (re.error, OverflowError, RecursionError) as problem:
        raise InvalidConfig(f"{setting}: Invalid rule: {pattern!r}: {problem}") from None


def _replacing(text: str, groups: int) -> Callable[[re.Match[str]], str]:
    """As Java replaces: $1 is a group, \\x the character x.  A $7 without a seventh group stands for itself."""
    parts: list[str | int] = []
    at = 0
    while at < len(text):
        number = _GROUP.match(text, at)
        if text[at] == "\\" and at + 1 < len(text):
            parts.append(text[at + 1])
            at += 2
        elif number is not None:
            digits = number[1]
            while len(digits) > 1 and int(digits) > groups:
                digits = digits[:-1]
            if int(digits) <= groups:
                parts.append(int(digits))
            else:
                parts.append("$" + digits)
            at += 1 + len(digits)
        else:
            parts.append(text[at])
            at += 1
    return lambda match: "".join(part if isinstance(part, str) else match[part] or "" for part in parts)


# Kerberos

_KERBEROS_NAME = re.compile(r"([^/@]*)(?:/([^/@]*))?@([^/@]*)")
_KERBEROS_RULE = re.compile(
    r"(?:(DEFAULT)|RULE:\[(\d{1,3}):([^\]]*)\](?:\(([^)]*)\))?(?:s/([^/]*)/([^/]*)/(g)?)?)/?(L)?"
)
_PARAMETER = re.compile(r"\$(\d*)")


class _KerberosRule(NamedTuple):
    """`components` -1: DEFAULT, the first component of a name in the default realm."""

    components: int
    form: str
    match: re.Pattern[str] | None
    substitute: Callable[[str], str]
    lower: bool


class KerberosNamer:
    def __init__(self, rules: Sequence[str], default_realm: str) -> None:
        self._realm = default_realm
        self._rules = [_parse_kerberos_rule(rule) for rule in (rules or ("DEFAULT",))]

    def name_of(self, principal: str) -> str:
        """The short name of `primary/instance@REALM`."""
        match = _KERBEROS_NAME.fullmatch(principal) if len(principal) <= NAME_BYTES_MAX else None
        if match is None:
            if "@" in principal or "/" in principal or len(principal) > NAME_BYTES_MAX:
                raise NoRuleApplies(f"{principal[:200]!r} is no Kerberos principal")
            return principal
        parts = [match[3], match[1], *([] if match[2] is None else [match[2]])]
        for rule in self._rules:
            name = self._apply(rule, parts)
            if name is not None:
                return name
        raise NoRuleApplies(
            f"no rule of sasl.kerberos.principal.to.local.rules applies to {principal[:200]!r}"
        )

    def _apply(self, rule: _KerberosRule, parts: list[str]) -> str | None:
        if rule.components == -1:
            name = parts[1] if parts[0] == self._realm else None
        elif rule.components != len(parts) - 1:
            name = None
        else:
            base = _PARAMETER.sub(lambda reference: _parameter(reference, parts), rule.form)
            fits = rule.match is None or rule.match.fullmatch(base)
            name = rule.substitute(base) if fits else None
        if name is None:
            return None
        if "/" in name or "@" in name:
            raise NoRuleApplies(f"a rule of sasl.kerberos.principal.to.local.rules gives {name[:200]!r}")
        return name.lower() if rule.lower else name


def _parse_kerberos_rule(text: str) -> _KerberosRule:
    rule = _KERBEROS_RULE.fullmatch(text.strip()) if len(text) <= RULES_BYTES_MAX else None
    setting = "sasl.kerberos.principal.to.local.rules"
    if rule is None:
        raise InvalidConfig(f"{setting}: Invalid rule: {text[:200]}")
    lower = rule[8] == "L"
    if rule[1]:
        return _KerberosRule(-1, "", None, str, lower)
    components = int(rule[2])
    for number in _PARAMETER.findall(rule[3]):
        if not number or int(number) > components:
            raise InvalidConfig(
                f"{setting}: ${number} is outside of the {components} components of {text[:200]}"
            )
    match = None if rule[4] is None else _compiled(rule[4], setting)
    if rule[5] is None:
        return _KerberosRule(components, rule[3], match, str, lower)
    pattern = _compiled(rule[5], setting)
    replace, count = _replacing(rule[6], pattern.groups), 0 if rule[7] else 1
    return _KerberosRule(components, rule[3], match, lambda base: pattern.sub(replace, base, count), lower)


def _parameter(reference: re.Match[str], parts: list[str]) -> str:
    return parts[int(reference[1])]
