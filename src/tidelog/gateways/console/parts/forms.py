"""Forms that change something.  The browser sends a token back that only a page of this console can know: besides the
frame's check of origins, a second lock against pages of other sites."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response

from tidelog.gateways.console.parts.markup import Child, Markup, h
from tidelog.gateways.http.problem import Problem

TOKEN_COOKIE = "tidelog_form"
TOKEN_LENGTH = 43
FIELDS_MAX = 200


def token_of(request: Request) -> str:
    """The one of this browser; a new one when it has none."""
    given = request.cookies.get(TOKEN_COOKIE, "")
    if len(given) == TOKEN_LENGTH and given.isascii():
        return given
    if not hasattr(request.state, "token"):
        request.state.token = secrets.token_urlsafe(32)
    token: str = request.state.token
    return token


def cookie(answer: Response, name: str, value: str) -> None:
    answer.set_cookie(name, value, path="/", httponly=True, samesite="strict")


def search(action: str, wanted: str, *more: Child, hint: str = "Name has", length_max: int = 1_000) -> Markup:
    """A form that looks for something; `more` fields beside the text."""
    return h.form(
        h.label(hint, for_="q", class_="hidden"),
        h.input(type="search", id="q", name="q", value=wanted, placeholder=f"{hint}…", maxlength=length_max),
        more,
        h.button("Search"),
        method="get",
        action=action,
        role="search",
        class_="inline",
    )


def state_choice(states: Iterable[str], state: str) -> Markup:
    return h.label(
        h.span("State", class_="hidden"),
        choice("state", {"": "in any state"} | {one: one for one in states}, state),
    )


def form(request: Request, action: str, *inside: Child, class_: str = "", label: str | None = None) -> Markup:
    """A form that changes something."""
    return h.form(
        h.input(type="hidden", name="token", value=token_of(request)),
        inside,
        action=action,
        method="post",
        class_=class_ or None,
        aria_label=label,
        data_saves=True,
    )


async def sent(request: Request, token: bool = True) -> dict[str, str]:
    """What was filled in, the last of each name; refused when the token is not that of the page.  Only a form that
    changes nothing does without."""
    if request.headers.get("content-type", "").split(";")[0] != "application/x-www-form-urlencoded":
        raise Problem(415, "the console takes forms only: use the REST proxy to send something else")
    try:
        pairs = parse_qsl((await request.body()).decode(), True, errors="strict", max_num_fields=FIELDS_MAX)
    except ValueError:
        raise Problem(
            400, "the form cannot be read: it is no text in UTF-8, or has too many fields"
        ) from None
    # Browsers send lines with both ends, whatever was typed or pasted.
    given = {name: value.replace("\r\n", "\n") for name, value in pairs}
    if not token:
        return given
    expected = request.cookies.get(TOKEN_COOKIE, "")
    if len(expected) != TOKEN_LENGTH or not hmac.compare_digest(
        given.get("token", "").encode(), expected.encode()
    ):
        raise Problem(403, "this form is too old, or not of this console: load the page anew and try again")
    return given


def field(label: str, control: Markup, hint: Child = None, class_: str = "") -> Markup:
    """A labelled control."""
    return h.label(
        h.span(label, class_="label"),
        control,
        h.span(hint, class_="hint") if hint else None,
        class_=f"field {class_}".strip(),
    )


def choice(name: str, options: dict[str, str], chosen: str | None) -> Markup:
    return h.select(
        [h.option(text, value=value, selected=value == chosen) for value, text in options.items()], name=name
    )
