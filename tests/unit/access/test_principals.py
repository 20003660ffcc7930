"""Principals, and the mapping rules of certificates and Kerberos, with the examples of Kafka's documentation."""

from __future__ import annotations

import pytest

from tidelog.access.principals import (
    KerberosNamer,
    NoRuleApplies,
    Principal,
    SslPrincipalMapper,
    distinguished_name,
)
from tidelog.errors import InvalidConfig, InvalidRequest

DOCUMENTED = (
    r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,"
    r"RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,"
    "DEFAULT"
)


def test_a_principal_has_a_kind_and_a_name() -> None:
    for text in ("User:ann", "User:CN=a:b,O=c", "User:", ":x", "Group:a"):
        assert str(Principal.parse(text)) == text
    assert Principal.parse("User:CN=a:b") == ("User", "CN=a:b")
    for text in ("ann", ""):
        with pytest.raises(InvalidRequest, match=f"Could not parse principal from `{text}`"):
            Principal.parse(text)


@pytest.mark.parametrize(
    ("rules", "subject", "name"),
    [
        (
            DOCUMENTED,
            "CN=serviceuser,OU=ServiceUsers,O=Unknown,L=Unknown,ST=Unknown,C=Unknown",
            "serviceuser",
        ),
        (DOCUMENTED, "CN=adminUser,OU=Admin,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "adminuser@admin"),
        (DOCUMENTED, "OU=JavaSoft,CN=Duke.1,C=US", "duke.1"),
        (DOCUMENTED, "OU=JavaSoft", "OU=JavaSoft"),
        ("", "CN=ann", "CN=ann"),
        ("DEFAULT", "CN=ann", "CN=ann"),
        (" , DEFAULT ,", "CN=ann", "CN=ann"),
        (r"RULE:^CN=(\w+).*$/$1/U", "CN=ann,O=b", "ANN"),
        (r"RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/,DEFAULT", r"CN=Duke\, JavaSoft,OU=x", r"Duke\, JavaSoft"),
        (r"RULE:^.*$/a\/b/", "CN=ann", "a/b"),
        (r"RULE:^CN=(.)(.*)$/$2$1$7-$0/", "CN=ab", "ba$7-CN=ab"),
        (r"RULE:^CN=(?<who>.*)$/$1/", "CN=ann", "ann"),
        (r"RULE:^CN=(.*)$/$12/", "CN=ann", "ann2"),
    ],
)
def test_rules_of_certificates(rules: str, subject: str, name: str) -> None:
    assert SslPrincipalMapper(rules).name_of(subject) == name


def test_a_certificate_that_no_rule_fits_is_nobodys() -> None:
    mapper = SslPrincipalMapper("RULE:^CN=(.*)$/$1/")
    for subject in ("O=x", "", "CN=" + "a" * 10_000):
        with pytest.raises(NoRuleApplies, match=r"ssl\.principal\.mapping\.rules"):
            mapper.name_of(subject)


@pytest.mark.parametrize(
    "rules",
    ["deny", "RULE:", "RULE:a/b", "RULE:(/b/", "RULE:a/b/X", "DEFAULTX", "DEFAULT RULE:a/b/", "RULE:a/b/LL"],
)
def test_rules_that_are_none(rules: str) -> None:
    with pytest.raises(InvalidConfig, match=r"ssl.principal.mapping.rules: Invalid rule"):
        SslPrincipalMapper(rules)


def test_a_subject_is_written_as_java_writes_it() -> None:
    subject = (
        (("countryName", "US"),),
        (("organizationName", "Sun, Inc"),),
        (("organizationalUnitName", "a"), ("userId", "#5")),
        (("commonName", " Duke "),),
        (("emailAddress", "a@b"),),
    )
    assert distinguished_name(subject) == (
        r"1.2.840.113549.1.9.1=#160361"
        r"4062,CN=\ Duke\ ,OU=a+UID=\#5,O=Sun\, Inc,C=US"
    )
    assert distinguished_name(()) == ""


REALM = "EXAMPLE.COM"


@pytest.mark.parametrize(
    ("rules", "principal", "name"),
    [
        (["DEFAULT"], "ann@EXAMPLE.COM", "ann"),
        (["DEFAULT"], "kafka/host@EXAMPLE.COM", "kafka"),
        ([], "ann@EXAMPLE.COM", "ann"),
        (["DEFAULT"], "ann", "ann"),
        (["RULE:[1:$1](App\\..*)s/App\\.(.*)/$1/g", "DEFAULT"], "App.service@OTHER", "service"),
        (["RULE:[2:$1](App\\..*)s/App\\.(.*)/$1/g", "DEFAULT"], "App.service/x@OTHER", "service"),
        (["RULE:[1:$1@$0](.*@OTHER)s/@.*//", "DEFAULT"], "bob@OTHER", "bob"),
        (["RULE:[2:$1-$2](.*)/L"], "Kafka/HOST@X", "kafka-host"),
        (["RULE:[2:$1;$2](^.*;admin$)s/;admin$//"], "ann/admin@X", "ann"),
        (["RULE:[1:$1](.*)s/a/b/"], "aaa@X", "baa"),
        (["RULE:[1:$1](.*)s/a/b/g"], "aaa@X", "bbb"),
    ],
)
def test_rules_of_kerberos(rules: list[str], principal: str, name: str) -> None:
    assert KerberosNamer(rules, REALM).name_of(principal) == name


def test_kerberos_principals_that_are_nobodys() -> None:
    for rules, principal in (
        (["DEFAULT"], "ann@OTHER"),
        (["DEFAULT"], "a/b/c@EXAMPLE.COM"),
        (["DEFAULT"], "a@b@c"),
        (["DEFAULT"], "a/b"),
        (["RULE:[2:$1]"], "ann@EXAMPLE.COM"),
        (["RULE:[1:$1@$0]"], "ann@EXAMPLE.COM"),
    ):
        with pytest.raises(NoRuleApplies):
            KerberosNamer(rules, REALM).name_of(principal)


@pytest.mark.parametrize(
    "rule", ["", "default", "RULE:[x:$1]", "RULE:[1:$2]", "RULE:[1:$]", "RULE:[1:$1](()", "RULE:[1:$1]s/(/x/"]
)
def test_kerberos_rules_that_are_none(rule: str) -> None:
    with pytest.raises(InvalidConfig, match=r"Invalid rule|outside"):
        KerberosNamer([rule], REALM)
