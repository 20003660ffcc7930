"""Forms.  Those that change something carry a token that only a page of this console can know: besides the HTTP port's
check of origins, a second lock against pages of other sites."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable, Mapping
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response

from tidelog.errors import InvalidRequest
from tidelog.gateways.console.parts.markup import Child, Markup, h
from tidelog.gateways.http.problem import Problem

TOKEN_COOKIE = "tidelog_form"
TOKEN_LENGTH = 43
FIELDS_MAX = 200


def token_of(request: Request) -> str:
    """The token of this browser; a new token when the browser has none."""
    given = request.cookies.get(TOKEN_COOKIE, "")
    if len(given) == TOKEN_LENGTH and given.isascii():
        return given
    if not hasattr(request.state, "token"):
        request.state.token = secrets.token_urlsafe(32)
    token: str = request.state.token
    return token


def cookie(answer: Response, name: str, value: str) -> None:
    answer.set_cookie(name, value, path="/", httponly=True, samesite="strict")


def search(
    action: str, wanted: str, *more: Child, hint: str = "Name contains", length_max: int = 1_000
) -> Markup:
    """A search form; `more` are the fields beside the text."""
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
        choice("state", {"": "Any state"} | {name: name for name in states}, state),
    )


def form(request: Request, action: str, *inside: Child, class_: str = "", label: str | None = None) -> Markup:
    """A form that changes something, with its token."""
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
    """The fields of the form, the last of each name.  Raises `Problem` when the token is not that of the page; `token` is
    False for a form that changes nothing."""
    if request.headers.get("content-type", "").split(";")[0] != "application/x-www-form-urlencoded":
        raise Problem(415, "the console accepts form data only: send other content to the REST proxy")
    try:
        pairs = parse_qsl((await request.body()).decode(), True, errors="strict", max_num_fields=FIELDS_MAX)
    except ValueError:
        raise Problem(400, "the form cannot be read: it is not UTF-8, or has too many fields") from None
    # Browsers end lines with \r\n, whatever was typed or pasted.
    fields = {name: value.replace("\r\n", "\n") for name, value in pairs}
    if not token:
        return fields
    expected = request.cookies.get(TOKEN_COOKIE, "")
    if len(expected) != TOKEN_LENGTH or not hmac.compare_digest(
        fields.get("token", "").encode(), expected.encode()
    ):
        raise Problem(403, "the form has expired or belongs to another site: reload the page and try again")
    return fields


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


def confirmation(text: str) -> Markup:
    """A box to tick before an action that cannot be undone; `check_confirmed` requires it."""
    return h.label(
        h.input(type="checkbox", name="confirmed", value="yes", required=True),
        f" {text}",
        class_="check wide",
    )


def check_confirmed(fields: Mapping[str, str], action: str) -> None:
    if fields.get("confirmed") != "yes":
        raise InvalidRequest(f"{action}: tick the box beside the button to confirm it")
