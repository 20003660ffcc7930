"""What all pages have: head, navigation, messages, and the content security policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from tidelog.gateways.console.parts.forms import TOKEN_COOKIE, cookie, form, token_of
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
MESSAGE_COOKIE = "tidelog_told"
THEME_COOKIE = "tidelog_theme"
MESSAGE_MAX = 1_000


class BrokerIdentity(NamedTuple):
    """What the foot of the navigation names: the version, and the broker and cluster that the console belongs to."""

    version: str
    cluster_id: str
    node_id: int
    user: str = ""
    """The user who has logged in; empty where nobody logs in."""


# The name of each section, its address, and the key that opens it after g.
SECTIONS = (
    ("Overview", "/", "o"),
    ("Topics", path("topics"), "t"),
    ("Groups", path("groups"), "g"),
    ("Share groups", path("shares"), "q"),
    ("Transactions", path("transactions"), "x"),
    ("Schemas", path("schemas"), "s"),
    ("Brokers", path("brokers"), "b"),
    ("Clients", path("clients"), "c"),
    ("Tenants", path("tenants"), "n"),
    ("Alerts", path("alerts"), "a"),
    ("Planner", path("plan"), "p"),
)


def _head(title: str, *more: Child) -> Child:
    return h.head(
        h.meta(charset="utf-8"),
        h.meta(name="viewport", content="width=device-width, initial-scale=1"),
        h.meta(name="color-scheme", content="light dark"),
        h.title(f"{title} · Tidelog"),
        h.link(rel="icon", href="/console/static/icon.svg"),
        h.link(rel="stylesheet", href="/console/static/console.css"),
        *more,
    )


def bare_page(request: Request, title: str, *body: Child, status: int = 200) -> Response:
    """A page that shows nothing of the cluster, for people who have not logged in."""
    document = h.html(
        _head(title),
        h.body(h.main(h.h1(title), joined(body), id="page", tabindex="-1")),
        lang="en",
    )
    answer = HTMLResponse(f"<!doctype html>{document}", status, HEADERS)
    if request.cookies.get(TOKEN_COOKIE) != token_of(request):
        cookie(answer, TOKEN_COOKIE, token_of(request))
    return answer


def page(
    request: Request,
    title: str,
    *body: Child,
    place: str = "",
    crumbs: Mapping[str, str] | None = None,
    status: int = 200,
) -> Response:
    """`place`: the section that the page belongs to.  `crumbs`: the pages above this one, address by name."""
    message = request.cookies.get(MESSAGE_COOKIE)
    theme = request.cookies.get(THEME_COOKIE)
    document = h.html(
        _head(title, h.script(src="/console/static/console.js", defer=True)),
        h.body(
            h.a("Skip to main content", href="#page", class_="skip"),
            _navigation(request, place),
            h.main(
                _crumbs(crumbs or {}, title),
                _message(message),
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
    if message is not None:
        answer.delete_cookie(MESSAGE_COOKIE, path="/")
    if request.cookies.get(TOKEN_COOKIE) != token_of(request):
        cookie(answer, TOKEN_COOKIE, token_of(request))
    return answer


def fragment(content: Child) -> Response:
    """A piece of a page that the script fetches again and again."""
    return HTMLResponse(joined([content]), headers=HEADERS)


def redirect(address: str, message: str = "", failed: bool = False) -> Response:
    """To another page, after an action; that page shows `message` once."""
    answer = RedirectResponse(address, 303, HEADERS)
    if message:
        cookie(answer, MESSAGE_COOKIE, quote(("!" if failed else "") + message[:MESSAGE_MAX]))
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
        for name, address, key in SECTIONS
    ]
    return h.header(
        h.a(h.span(class_="logo", aria_hidden="true"), "Tidelog", href="/", class_="brand"),
        h.button("Menu", type="button", class_="menu quiet", aria_expanded="false", aria_controls="sections"),
        h.nav(h.ul(items), id="sections", aria_label="Sections"),
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
            h.button(
                "Theme", type="button", class_="theme quiet", aria_label="Switch between light and dark theme"
            ),
            h.button("Local time", type="button", class_="zone quiet", aria_pressed="false", hidden=True),
            h.button("Shortcuts", type="button", class_="keys quiet", aria_haspopup="dialog"),
            class_="tools",
        ),
        _identity(request.state.identity),
        _user(request, request.state.identity.user),
        class_="side",
    )


def _identity(identity: BrokerIdentity) -> Markup:
    return h.p(
        f"Tidelog {identity.version}",
        h.br(),
        f"Cluster {identity.cluster_id}",
        h.br(),
        f"Broker {identity.node_id}",
        class_="identity muted small",
    )


def _user(request: Request, user: str) -> Markup | None:
    if not user:
        return None
    # A form with the console's token: no page of another site can log a visitor out.
    return form(
        request,
        path("logout"),
        h.p(f"Logged in as {user}", class_="muted small"),
        h.button("Log out", class_="quiet"),
    )


def _crumbs(crumbs: Mapping[str, str], title: str) -> Markup:
    if not crumbs:
        return h.h1(title)
    return joined(
        [
            h.nav(
                h.ol([h.li(h.a(name, href=address)) for name, address in crumbs.items()]),
                class_="crumbs",
                aria_label="Breadcrumb",
            ),
            h.h1(title),
        ]
    )


def _message(cookie_value: str | None) -> Markup | None:
    if not cookie_value:
        return None
    text = unquote(cookie_value)
    failed = text.startswith("!")
    return notice(text.removeprefix("!"), "bad" if failed else "good")


def notice(text: Child, severity: str = "") -> Markup:
    role = "alert" if severity == "bad" else "status"
    return h.div(h.p(text), class_=f"notice {severity}".strip(), role=role)


def _shortcuts() -> Markup:
    rows = [("/", "Search"), ("?", "Show this list"), ("Esc", "Close, or leave a field")]
    rows += [(f"g {key}", name) for name, _, key in SECTIONS]
    return h.dialog(
        h.h2("Keyboard shortcuts"),
        h.dl([h.div(h.dt([h.kbd(key) for key in keys.split()]), h.dd(meaning)) for keys, meaning in rows]),
        h.form(h.button("Close"), method="dialog"),
        id="keys",
        aria_label="Keyboard shortcuts",
    )


def error_page(request: Request, title: str, text: str, status: int) -> Response:
    return page(
        request,
        title,
        notice(text, "bad"),
        h.p(h.a("Go to the overview", href="/")),
        status=status,
    )
