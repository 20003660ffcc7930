"""The registry's errors, with Confluent's numbers and texts, because clients look at both.

`number` is the error code in the answer's body, `status` the HTTP status.  Pure."""

from __future__ import annotations

from tidelog.errors import TidelogError


class Refusal(TidelogError):
    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.number = code


def subject_not_found(subject: str) -> Refusal:
    return Refusal(404, 40401, f"Subject '{subject}' not found.")


def version_not_found(version: object) -> Refusal:
    return Refusal(404, 40402, f"Version {version} not found.")


def schema_not_found(which: object = None) -> Refusal:
    return Refusal(404, 40403, "Schema not found" if which is None else f"Schema {which} not found")


def subject_soft_deleted(subject: str) -> Refusal:
    return Refusal(
        404, 40404, f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently"
    )


def subject_not_soft_deleted(subject: str) -> Refusal:
    return Refusal(404, 40405, f"Subject '{subject}' was not deleted first before being permanently deleted")


def version_soft_deleted(subject: str, version: int) -> Refusal:
    message = (
        f"Subject '{subject}' Version {version} was soft deleted. Set permanent=true to delete permanently"
    )
    return Refusal(404, 40406, message)


def version_not_soft_deleted(subject: str, version: int) -> Refusal:
    message = f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
    return Refusal(404, 40407, message)


def compatibility_not_set(subject: str) -> Refusal:
    return Refusal(404, 40408, f"Subject '{subject}' does not have subject-level compatibility configured")


def mode_not_set(subject: str) -> Refusal:
    return Refusal(404, 40409, f"Subject '{subject}' does not have subject-level mode configured")


def incompatible(subject: str, details: list[str]) -> Refusal:
    reasons = ", ".join(details)
    return Refusal(
        409,
        409,
        f'Schema being registered is incompatible with an earlier schema for subject "{subject}", '
        f"details: [{reasons}]",
    )


def invalid_schema(why: str) -> Refusal:
    return Refusal(422, 42201, f"Invalid schema: {why}")


def invalid_version(version: object) -> Refusal:
    return Refusal(
        422,
        42202,
        f"The specified version '{version}' is not a valid version id. Allowed values are between [1, 2^31-1] "
        'and the string "latest"',
    )


def invalid_compatibility(given: object) -> Refusal:
    return Refusal(
        422,
        42203,
        f"Invalid compatibility level {given!r}. Valid values are none, backward, forward, full, "
        "backward_transitive, forward_transitive, and full_transitive",
    )


def invalid_mode(given: object) -> Refusal:
    return Refusal(
        422,
        42204,
        f"Invalid mode {given!r}. Valid values are READWRITE, READONLY, READONLY_OVERRIDE and IMPORT.",
    )


def not_permitted(why: str) -> Refusal:
    return Refusal(422, 42205, why)


def reference_exists(subject: str, version: int) -> Refusal:
    key = f"{{magic=1,keytype=SCHEMA,subject={subject},version={version}}}"
    return Refusal(422, 42206, f"One or more references exist to the schema {key}.")


def invalid_subject(subject: str) -> Refusal:
    return Refusal(422, 42208, f"The specified subject '{subject}' is not valid.")


def schema_too_large(why: str) -> Refusal:
    return Refusal(422, 42209, why)


def invalid_rule_set(why: str) -> Refusal:
    return Refusal(422, 42210, f"Invalid ruleset: {why}")


def context_not_empty(context: str) -> Refusal:
    return Refusal(422, 42211, f"The specified context '{context}' is not empty.")


def malformed(why: str) -> Refusal:
    """The body or a parameter does not fit the endpoint."""
    return Refusal(422, 422, why)


def not_installed(why: str) -> Refusal:
    """The broker lacks a package that the type of a schema needs."""
    return Refusal(501, 501, why)


def store_failed(why: str) -> Refusal:
    return Refusal(500, 50001, f"Error while reading or writing the schemas: {why}")


def timed_out(why: str) -> Refusal:
    return Refusal(500, 50002, f"The change could not be confirmed in time, it may still happen: {why}")


def not_forwarded(why: str) -> Refusal:
    return Refusal(503, 50003, f"Error while forwarding the request to the leader: {why}")
