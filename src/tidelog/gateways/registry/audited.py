"""What the endpoints of the schema registry change, for the audit trail.  A test checks that every endpoint with a method
that can change something is in `CHANGES`, or in `UNCHANGING`."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from tidelog.gateways.http import identity
from tidelog.gateways.http.problem import Problem
from tidelog.registry.refusal import Refusal

if TYPE_CHECKING:
    from tidelog.gateways.http.surroundings import Surroundings
    from tidelog.gateways.registry.call import Call

CHANGES = {
    ("POST", "subjects/{}/versions"): "REGISTER_SCHEMA",
    ("DELETE", "subjects/{}"): "DELETE_SUBJECT",
    ("DELETE", "subjects/{}/versions/{}"): "DELETE_SCHEMA_VERSION",
    ("PUT", "config"): "ALTER_COMPATIBILITY",
    ("DELETE", "config"): "ALTER_COMPATIBILITY",
    ("PUT", "config/{}"): "ALTER_COMPATIBILITY",
    ("DELETE", "config/{}"): "ALTER_COMPATIBILITY",
    ("PUT", "mode"): "ALTER_MODE",
    ("DELETE", "mode"): "ALTER_MODE",
    ("PUT", "mode/{}"): "ALTER_MODE",
    ("DELETE", "mode/{}"): "ALTER_MODE",
    ("DELETE", "contexts/{}"): "DELETE_CONTEXT",
}
"""By method and pattern, as in `routes.ENDPOINTS`."""

UNCHANGING = frozenset(
    (
        ("POST", "subjects/{}"),
        ("POST", "compatibility/subjects/{}/versions"),
        ("POST", "compatibility/subjects/{}/versions/{}"),
    )
)
_FORBIDDEN = 403


class RecordedChange:
    """A context in which a request is answered: records what came of it."""

    def __init__(self, around: Surroundings, request: Request, call: Call, operation: str | None) -> None:
        """Without an operation there is nothing to record."""
        self._around = around
        self._request = request
        self._call = call
        self._operation = operation
        self.response: Response | None = None

    def __enter__(self) -> RecordedChange:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._operation is None or self._around.services.gate.audit.enabled is False:
            return
        status, reason = self._outcome(problem)
        if status == _FORBIDDEN:
            return  # the gate has recorded the denial
        gate = self._around.services.gate
        session = identity.session()
        if session is None:
            host, port = self._request.client or ("unknown", 0)
            session = gate.open("HTTP", f"{host}:{port}", "HTTP")
        names = list(self._call.names)
        change = {"method": self._request.method, **({"version": names[1]} if len(names) > 1 else {})}
        body = self._call.body if problem is None and self._operation.startswith("ALTER") else {}
        if isinstance(body, dict):
            change |= {
                name: value
                for name, value in body.items()
                if name in ("compatibility", "mode") and isinstance(value, str)
            }
        gate.audit.changed(session, self._operation, "SUBJECT", names[0] if names else "*", change, reason)

    def _outcome(self, problem: BaseException | None) -> tuple[int, str | None]:
        if problem is None:
            status = 0 if self.response is None else self.response.status_code
            return status, None if status < 400 else f"HTTP {status}"
        if isinstance(problem, Refusal | Problem):
            return problem.status, f"HTTP {problem.status}"
        return 500, type(problem).__name__
