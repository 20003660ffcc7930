"""What all pages have: head, navigation, messages to the person, the policy that browsers enforce."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from tidelog.gateways.console.parts.forms import TOKEN_COOKIE, cookie, token_of
from tidelog.gateways.console.parts.markup import Child, Markup, h, joined, path

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
}
TOLD_COOKIE = "tidelog_told"
THEME_COOKIE = "tidelog_theme"
TOLD_MAX = 1_000

# The name of each place, its address, and the key that goes there after g.
PLACES = (
    ("Overview", "/", "o"),
    ("Topics", path("topics"), "t"),
    ("Groups", path("groups"), "g"),
    ("Share groups", path("shares"), "q"),
    ("Transactions", path("transactions"), "x"),
    ("Schemas", path("schemas"), "s"),
    ("Brokers", path("brokers"), "b"),
    ("Alerts", path("alerts"), "a"),
    ("Planner", path("plan"), "p"),
)


def page(
    request: Request,
    title: str,
    *body: Child,
    place: str = "",
    crumbs: Mapping[str, str] | None = None,
    status: int = 200,
) -> Response:
    """`crumbs`: what this page is below, name by address."""
    told = request.cookies.get(TOLD_COOKIE)
    theme = request.cookies.get(THEME_COOKIE)
    document = h.html(
        h.head(
            h.meta(charset="utf-8"),
            h.meta(name="viewport", content="width=device-width, initial-scale=1"),
            h.meta(name="color-scheme", content="light dark"),
            h.title(f"{title} · Tidelog"),
            h.link(rel="icon", href="/console/static/icon.svg"),
            h.link(rel="stylesheet", href="/console/static/console.css"),
            h.script(src="/console/static/console.js", defer=True),
        ),
        h.body(
            h.a("Skip to the page", href="#page", class_="skip"),
            _navigation(request, place),
            h.main(
                _crumbs(crumbs or {}, title),
                _message(told),
                joined(body),
                id="page",
                tabindex="-1",
            ),
            _shortcuts(),
        ),
        lang="en",
        data_theme=theme if theme in ("light", "dark") else None,
    )
    answer = HTMLResponse(f"<!doctype html>{document}", status, HEADERS)
    if told is not None:
        answer.delete_cookie(TOLD_COOKIE, path="/")
    if request.cookies.get(TOKEN_COOKIE) != token_of(request):
        cookie(answer, TOKEN_COOKIE, token_of(request))
    return answer


def part(content: Child) -> Response:
    """A piece of a page that is asked for again and again."""
    return HTMLResponse(joined([content]), headers=HEADERS)


def go(place: str, told: str = "", failed: bool = False) -> Response:
    """To another page, after something was done; `told` is shown there once."""
    answer = RedirectResponse(place, 303, HEADERS)
    if told:
        cookie(answer, TOLD_COOKIE, quote(("!" if failed else "") + told[:TOLD_MAX]))
    return answer


def _navigation(request: Request, place: str) -> Markup:
    items = [
        h.li(
            h.a(
                name,
                href=address,
                aria_current="page" if name == place else None,
                data_key=key,
                title=f"{name} (g then {key})",
            )
        )
        for name, address, key in PLACES
    ]
    return h.header(
        h.a(h.span(class_="logo", aria_hidden="true"), "Tidelog", href="/", class_="brand"),
        h.button("Menu", type="button", class_="menu quiet", aria_expanded="false", aria_controls="places"),
        h.nav(h.ul(items), id="places", aria_label="Places"),
        h.form(
            h.label("Find a topic or group", for_="find", class_="hidden"),
            h.input(
                type="search",
                id="find",
                name="q",
                placeholder="Topic or group",
                autocomplete="off",
                aria_keyshortcuts="/",
                maxlength=249,
            ),
            h.kbd("/", aria_hidden="true"),
            action=path("find"),
            method="get",
            role="search",
            class_="find",
        ),
        h.div(
            h.button("Dark or light", type="button", class_="theme quiet", aria_label="Dark or light page"),
            h.button("Keys", type="button", class_="keys quiet", aria_haspopup="dialog"),
            class_="tools",
        ),
        class_="side",
    )


def _crumbs(crumbs: Mapping[str, str], title: str) -> Markup:
    if not crumbs:
        return h.h1(title)
    return joined(
        [
            h.nav(
                h.ol([h.li(h.a(name, href=address)) for name, address in crumbs.items()]),
                class_="crumbs",
                aria_label="Above this page",
            ),
            h.h1(title),
        ]
    )


def _message(told: str | None) -> Markup | None:
    if not told:
        return None
    text = unquote(told)
    failed = text.startswith("!")
    return notice(text.removeprefix("!"), "bad" if failed else "good")


def notice(text: Child, level: str = "") -> Markup:
    role = "alert" if level == "bad" else "status"
    return h.div(h.p(text), class_=f"notice {level}".strip(), role=role)


def _shortcuts() -> Markup:
    rows = [("/", "search"), ("?", "this list"), ("Esc", "close, leave a field")]
    rows += [(f"g {key}", name) for name, _, key in PLACES]
    return h.dialog(
        h.h2("Keys"),
        h.dl([h.div(h.dt([h.kbd(one) for one in keys.split()]), h.dd(what)) for keys, what in rows]),
        h.form(h.button("Close"), method="dialog"),
        id="keys",
        aria_label="Keys",
    )


def refused(request: Request, title: str, words: str, status: int) -> Response:
    return page(
        request,
        title,
        notice(words, "bad"),
        h.p(h.a("To the overview", href="/")),
        status=status,
    )
