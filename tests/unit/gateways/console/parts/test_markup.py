"""Data never becomes markup."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.gateways.console.parts.markup import Markup, h, joined, path

NASTY = "<script>alert(1)</script>\"'&"


def test_text_is_escaped_and_markup_is_not_escaped_again() -> None:
    assert h.td("<b>", class_="name") == '<td class="name">&lt;b&gt;</td>'
    assert h.p(h.b("x"), 1, None, ["y", h.br()]) == "<p><b>x</b>1y<br></p>"


@given(st.text())
def test_no_text_opens_an_element_or_leaves_its_attribute(text: str) -> None:
    made = h.p(text, title=text)
    assert made.count("<") == made.count(">") == 2
    assert made.count('"') == 2


def test_what_is_taken_from_markup_is_text_again() -> None:
    assert h.p(h.b("x").replace("b", "i")) == "<p>&lt;i&gt;x&lt;/i&gt;</p>"
    assert isinstance(joined(["a"]), Markup)


def test_attributes_that_are_off_are_left_out() -> None:
    assert h.input(checked=False, disabled=True, value=None, data_a_b=0) == '<input disabled data-a-b="0">'


@pytest.mark.parametrize(
    "address",
    ["javascript:alert(1)", "//evil.example/", "/\\evil.example", "https://evil.example", "data:x", ""],
)
def test_addresses_of_other_sites_are_refused(address: str) -> None:
    for attribute in ("href", "src", "action", "formaction"):
        with pytest.raises(ValueError, match="not a path of this site"):
            h.a("x", **{attribute: address})


def test_scripts_styles_and_handlers_are_refused() -> None:
    with pytest.raises(ValueError):
        h.script("alert(1)")
    with pytest.raises(ValueError):
        h.iframe()
    for attribute in ("onclick", "style"):
        with pytest.raises(ValueError):
            h.p(**{attribute: "x"})


def test_paths_quote_what_they_are_made_of() -> None:
    assert path("topics", "a/b c", q=NASTY, none=None).startswith("/console/topics/a%2Fb%20c?q=%3Cscript")
    assert path("groups", "show", name="\udc80") == "/console/groups/show?name=%3F"
    assert h.p("\udc80") == "<p>?</p>"
