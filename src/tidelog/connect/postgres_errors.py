"""What an error of psycopg means: the server is away, a row is wrong, or a person has to mend something."""

from __future__ import annotations

from tidelog.connect.connector import ConnectError, Unavailable


class RowProblem(Exception):
    """The database refuses the values of a row."""


def problem_of(where: str, problem: Exception) -> Exception:
    import psycopg

    text = f"{where}: {str(problem).strip()}"
    state = getattr(problem, "sqlstate", None) or ""
    if isinstance(problem, psycopg.OperationalError | psycopg.InterfaceError):
        # A connection that is refused for its log-in has no state, only words.
        words = (
            "password authentication failed",
            "does not exist",
            "no pg_hba.conf entry",
            "no password supplied",
        )
        if state.startswith(("28", "3D", "42", "54")) or any(word in text for word in words):
            return ConnectError(text)
        return Unavailable(text)
    if isinstance(problem, psycopg.DataError | psycopg.IntegrityError) or state in ("42804", "42846"):
        return RowProblem(str(problem).strip())
    if state in ("55006", "40001", "40P01"):  # in use, and conflicts of transactions
        return Unavailable(text)
    return ConnectError(text) if isinstance(problem, psycopg.Error) else problem
