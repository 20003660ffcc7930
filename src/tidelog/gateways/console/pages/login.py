"""Log in and log out: a form, and the session cookie.

Both forms carry the console's token, and the guard refuses what a page of another origin sends.  So every form of the
console is protected twice against pages of other sites, and the session needs no token of its own.  The session's cookie is
SameSite=Lax: a link on another site opens a page, but a form or a script there sends no cookie."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tidelog.gateways.console.console import Console
from tidelog.gateways.console.parts.forms import field, form, sent
from tidelog.gateways.console.parts.layout import bare_page, notice, redirect
from tidelog.gateways.console.parts.markup import h, path
from tidelog.gateways.http.authentication import SESSION_COOKIE, SESSION_MS_MAX, Authentication
from tidelog.gateways.http.guard import AUTHENTICATION, at_most
from tidelog.gateways.http.problem import Problem

ADDRESS = path("login")
FORM_BYTES_MAX = 65_536


def routes(console: Console) -> list[Route]:
    """Without what other pages get: nothing here shows the cluster, or starts to poll it."""

    async def show(request: Request) -> Response:
        if not console.around.config.http_logs_in:
            return redirect("/")
        return _page(request, _next(request.query_params.get("next", "")))

    async def log_in(request: Request) -> Response:
        if not console.around.config.http_logs_in:
            return redirect("/")
        at_most(request.scope, FORM_BYTES_MAX)
        try:
            fields = await sent(request)
        except Problem as problem:
            return _page(request, "/", problem.message, problem.status)
        following, user = _next(fields.get("next", "")), fields.get("user", "")
        authentication: Authentication = request.scope[AUTHENTICATION]
        try:
            identity = await authentication.verified(request.scope, "PLAIN", user, fields.get("password", ""))
        except Problem as problem:
            text = "The user name or the password is wrong." if problem.status == 401 else problem.message
            # 403: a browser would ask for a password itself after 401.
            return _page(request, following, text, 403 if problem.status == 401 else problem.status)
        answer = redirect(following)
        authentication.close_console(request.cookies.get(SESSION_COOKIE, ""))
        answer.set_cookie(
            SESSION_COOKIE,
            authentication.open_console(identity),
            max_age=SESSION_MS_MAX // 1000,
            path="/",
            httponly=True,
            samesite="lax",
            secure=request.url.scheme == "https",
        )
        return answer

    return [Route(ADDRESS, show), Route(ADDRESS, log_in, methods=["POST"])]


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


def _page(request: Request, following: str, problem: str = "", status: int = 200) -> Response:
    return bare_page(
        request,
        "Log in",
        notice(problem, "bad") if problem else None,
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
