"""Log in and log out: a form, buttons for the OpenID Connect provider and for Kerberos, and the session cookie.

Both forms carry the console's token, and the guard refuses what a page of another origin sends.  So every form of the
console is protected twice against pages of other sites, and the session needs no token of its own.  The session's cookie is
SameSite=Lax: a link on another site opens a page, but a form or a script there sends no cookie."""

from __future__ import annotations

import logging
from collections.abc import Callable
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tidelog.config import BrokerConfig
from tidelog.gateways.console.console import Console
from tidelog.gateways.console.oidc import BEGUN_MS_MAX, LoginFailed, OidcLogin
from tidelog.gateways.console.oidc import COOKIE as OIDC_COOKIE
from tidelog.gateways.console.oidc import COOKIE_PATH as OIDC_ADDRESS
from tidelog.gateways.console.parts.forms import field, form, sent
from tidelog.gateways.console.parts.layout import bare_page, notice, redirect
from tidelog.gateways.console.parts.markup import Markup, h, path
from tidelog.gateways.http.authentication import NEGOTIATE, SESSION_COOKIE, SESSION_MS_MAX, Authentication
from tidelog.gateways.http.guard import AUTHENTICATION, at_most
from tidelog.gateways.http.problem import Problem

log = logging.getLogger("tidelog.login")

ADDRESS = path("login")
TICKET_ADDRESS = f"{ADDRESS}/kerberos"
NO_TICKET = "The browser has sent no ticket: after kinit, allow it to send tickets to this address."
BAD_TICKET = "The ticket does not count."
FORM_BYTES_MAX = 65_536


def routes(console: Console) -> list[Route]:
    """Without what other pages get: nothing here shows the cluster, or starts to poll it."""

    def page(request: Request, following: str, problem: str = "", status: int = 200) -> Response:
        return _page(request, following, console.around.config, problem, status)

    async def show(request: Request) -> Response:
        if not console.around.config.http_logs_in:
            return redirect("/")
        return page(request, _next(request.query_params.get("next", "")))

    async def log_in(request: Request) -> Response:
        if not console.around.config.http_logs_in:
            return redirect("/")
        at_most(request.scope, FORM_BYTES_MAX)
        try:
            fields = await sent(request)
        except Problem as problem:
            return page(request, "/", problem.message, problem.status)
        following, user = _next(fields.get("next", "")), fields.get("user", "")
        authentication: Authentication = request.scope[AUTHENTICATION]
        try:
            identity = await authentication.verified(request.scope, "PLAIN", user, fields.get("password", ""))
        except Problem as problem:
            text = "The user name or the password is wrong." if problem.status == 401 else problem.message
            # 403: a browser would ask for a password itself after 401.
            return page(request, following, text, 403 if problem.status == 401 else problem.status)
        return _opened(request, following, authentication.open_console(identity))

    async def show_ticket(request: Request) -> Response:
        if not console.around.config.http_negotiates:
            return redirect(ADDRESS)
        following = _next(request.query_params.get("next", ""))
        authentication: Authentication = request.scope[AUTHENTICATION]
        scheme, _, ticket = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != NEGOTIATE.lower():
            # The browser asks again, with a ticket if it has one; otherwise it shows this page.
            answer = page(request, following, NO_TICKET, 401)
            answer.headers["www-authenticate"] = NEGOTIATE
            return answer
        try:
            identity = await authentication.ticket_holder(request.scope, ticket.strip())
        except Problem as problem:
            shown = BAD_TICKET if problem.status == 401 else problem.message
            return page(request, following, shown, 403 if problem.status == 401 else problem.status)
        return _opened(request, following, authentication.open_console(identity))

    return [
        Route(ADDRESS, show),
        Route(ADDRESS, log_in, methods=["POST"]),
        Route(TICKET_ADDRESS, show_ticket),
        *_oidc_routes(OidcLogin(console.around.services), page),
    ]


def _oidc_routes(login: OidcLogin, page: Callable[..., Response]) -> list[Route]:
    async def begin(request: Request) -> Response:
        settings, following = login.settings, _next(request.query_params.get("next", ""))
        if settings is None:
            return redirect(ADDRESS)
        try:
            address, begun = await login.begin(settings, following)
        except LoginFailed as problem:
            log.warning("no log-in through %s: %s", settings.issuer, problem.why)
            return page(request, following, problem.shown, problem.status)
        answer = redirect(address)
        answer.set_cookie(
            OIDC_COOKIE,
            begun,
            max_age=BEGUN_MS_MAX // 1000,
            path=OIDC_ADDRESS,
            httponly=True,
            samesite="lax",  # the provider sends the browser back from its own site
            secure=settings.redirect_url.startswith("https:"),
        )
        return answer

    async def come_back(request: Request) -> Response:
        settings = login.settings
        if settings is None:
            return redirect(ADDRESS)
        authentication: Authentication = request.scope[AUTHENTICATION]
        try:
            identity, following = await login.finish(
                settings, request.cookies.get(OIDC_COOKIE, ""), request.query_params
            )
        except LoginFailed as problem:
            await authentication.refused(request.scope, f"somebody through {settings.issuer}", problem.why)
            answer = page(request, "/", problem.shown, problem.status)
        else:
            answer = _opened(request, _next(following), authentication.logged_in(request.scope, identity))
        answer.delete_cookie(OIDC_COOKIE, path=OIDC_ADDRESS)
        return answer

    return [Route(OIDC_ADDRESS, begin), Route(f"{OIDC_ADDRESS}/callback", come_back)]


def _opened(request: Request, following: str, session_id: str) -> Response:
    """The session that the browser had before is over."""
    authentication: Authentication = request.scope[AUTHENTICATION]
    authentication.close_console(request.cookies.get(SESSION_COOKIE, ""))
    answer = redirect(following)
    answer.set_cookie(
        SESSION_COOKIE,
        session_id,
        max_age=SESSION_MS_MAX // 1000,
        path="/",
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
    )
    return answer


async def log_out(console: Console, request: Request) -> Response:
    await sent(request)
    authentication: Authentication = request.scope[AUTHENTICATION]
    authentication.close_console(request.cookies.get(SESSION_COOKIE, ""))
    answer = redirect(ADDRESS)
    answer.delete_cookie(SESSION_COOKIE, path="/")
    return answer


def _next(given: str) -> str:
    """A page of this console: an address from outside must not lead to another site."""
    return given if given == "/" or given.startswith("/console/") else "/"


def _page(request: Request, following: str, config: BrokerConfig, problem: str, status: int) -> Response:
    oidc = config.oidc
    return bare_page(
        request,
        "Log in",
        notice(problem, "bad") if problem else None,
        _other_login(f"Log in with {oidc.name}", OIDC_ADDRESS, following) if oidc is not None else None,
        _other_login("Log in with Kerberos", TICKET_ADDRESS, following) if config.http_negotiates else None,
        form(
            request,
            ADDRESS,
            h.input(type="hidden", name="next", value=following),
            field("User name", h.input(name="user", required=True, autocomplete="username", autofocus=True)),
            field(
                "Password",
                h.input(name="password", type="password", required=True, autocomplete="current-password"),
            ),
            h.button("Log in", class_="main"),
            class_="card",
        ),
        status=status,
    )


def _other_login(label: str, address: str, following: str) -> Markup:
    """A link and no form: the policy of the page lets no form lead to another site."""
    return h.p(h.a(label, href=f"{address}?{urlencode({'next': following})}", class_="button main"))
