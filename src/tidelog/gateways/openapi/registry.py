"""The operations of the schema registry.  Pure.  Every path also exists below /contexts/{context}."""

from __future__ import annotations

from tidelog.gateways.openapi.shapes import (
    ANYTHING,
    COUNT,
    FLAG,
    INDEX,
    NAME,
    TEXT,
    Operation,
    Parameter,
    Shape,
    many,
    mapping,
    maybe,
    one_of,
    open_to_more,
    ref,
    sent,
)

SUBJECT = "/subjects/{subject}"
VERSION = SUBJECT + "/versions/{version}"
LEVELS = (
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
)
MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT")


def _flag(name: str, about: str) -> Parameter:
    return Parameter(name, FLAG, about)


_DELETED = _flag("deleted", "include soft-deleted versions")
_DELETED_ONLY = _flag("deletedOnly", "only soft-deleted versions")
_PERMANENT = _flag("permanent", "delete permanently; requires a soft delete first")
_NORMALIZE = _flag("normalize", "normalize the schema first")
_VERBOSE = _flag("verbose", "list the incompatibilities")
_INHERITED = _flag("defaultToGlobal", "fall back to the global value")
_FORCE = _flag("force", "set IMPORT although there are schemas")
_FORMAT = Parameter(
    "format", one_of("resolved", "serialized"), "Avro with its references, Protobuf as a descriptor"
)
_PREFIX = Parameter("subjectPrefix", TEXT, "prefix of subjects; :.ctx: for a context, :*: for all")
_PAGE = (
    Parameter("offset", INDEX, "how many to skip"),
    Parameter("limit", INDEX, "maximum number of items"),
)
_SUBJECT = Parameter("subject", TEXT, "the subject whose context the id belongs to")

_REFERENCE: dict[str, Shape] = {"name": NAME, "subject": NAME, "version": COUNT}
_METADATA = {"tags": mapping(many(TEXT)), "properties": mapping(TEXT), "sensitive": many(TEXT)}
_RULES = many({"type": "object"})
_RULE_SET: dict[str, Shape] = {"migrationRules": _RULES, "domainRules": _RULES, "encodingRules": _RULES}
_MORE: dict[str, Shape] = {
    "schemaType": one_of("JSON", "PROTOBUF", "AVRO"),
    "references": many(sent(_REFERENCE)),
    "metadata": sent({}, _METADATA),
    "ruleSet": {"type": "object"},
}
_SETTINGS: dict[str, Shape] = {
    "compatibilityGroup": TEXT,
    "compatibilityPolicy": one_of("STRICT", "LENIENT"),
    "normalize": FLAG,
    "alias": NAME,
    "defaultMetadata": open_to_more({}, _METADATA),
    "overrideMetadata": open_to_more({}, _METADATA),
    "defaultRuleSet": open_to_more({}, _RULE_SET),
    "overrideRuleSet": open_to_more({}, _RULE_SET),
}

SHAPES: dict[str, Shape] = {
    "NewSchema": open_to_more(
        {"schema": NAME},
        {
            "schemaType": one_of("JSON", "PROTOBUF", "AVRO"),
            "references": many(open_to_more(_REFERENCE)),
            "metadata": maybe(open_to_more({}, _METADATA)),
            "ruleSet": maybe(open_to_more({}, _RULE_SET)),
        },
    ),
    "Registered": sent({"id": COUNT, "version": COUNT, "guid": TEXT}),
    "SchemaVersion": sent(
        {"subject": TEXT, "version": COUNT, "id": COUNT, "guid": TEXT, "schema": TEXT},
        {**_MORE, "deleted": FLAG},
    ),
    "SchemaText": sent({"schema": TEXT, "guid": TEXT}, {**_MORE, "maxId": COUNT}),
    "Compatible": sent({"is_compatible": FLAG}, {"messages": many(TEXT)}),
    "NewConfig": open_to_more({}, {"compatibility": maybe(one_of(*LEVELS)), **_SETTINGS}),
    "Config": sent(
        {},
        {
            "compatibilityLevel": maybe(one_of(*LEVELS)),
            **{name: maybe(shape) for name, shape in _SETTINGS.items()},
        },
    ),
    "Mode": open_to_more({"mode": one_of(*MODES)}),
}

_BAD = (422,)
_CHANGE = (409, 422)


def _settings(path: str, whose: str) -> dict[tuple[str, str], Operation]:
    return {
        ("GET", f"/config{path}"): Operation(
            f"settings of {whose}", ref("Config"), query=(_INHERITED,), refused=_BAD
        ),
        # The answer repeats the request.
        ("PUT", f"/config{path}"): Operation(
            f"change settings of {whose}", {"type": "object"}, ref("NewConfig"), refused=_BAD
        ),
        ("DELETE", f"/config{path}"): Operation(f"reset settings of {whose}", ref("Config"), refused=_BAD),
        ("GET", f"/mode{path}"): Operation(
            f"the mode of {whose}", ref("Mode"), query=(_INHERITED,), refused=_BAD
        ),
        ("PUT", f"/mode{path}"): Operation(
            f"change the mode of {whose}", ref("Mode"), ref("Mode"), (_FORCE,), refused=_BAD
        ),
        ("DELETE", f"/mode{path}"): Operation(f"reset the mode of {whose}", ref("Mode"), refused=_BAD),
    }


OPERATIONS: dict[tuple[str, str], Operation] = {
    ("GET", "/subjects"): Operation(
        "names of subjects", many(TEXT), query=(_PREFIX, _DELETED, _DELETED_ONLY, *_PAGE), refused=_BAD
    ),
    ("POST", SUBJECT): Operation(
        "the version that has this schema",
        ref("SchemaVersion"),
        ref("NewSchema"),
        (_NORMALIZE, _DELETED, _FORMAT),
        refused=_BAD,
    ),
    ("DELETE", SUBJECT): Operation("delete a subject", many(COUNT), query=(_PERMANENT,), refused=_BAD),
    ("GET", SUBJECT + "/versions"): Operation(
        "versions of the subject", many(COUNT), query=(_DELETED, _DELETED_ONLY, *_PAGE), refused=_BAD
    ),
    ("POST", SUBJECT + "/versions"): Operation(
        "register a schema", ref("Registered"), ref("NewSchema"), (_NORMALIZE,), refused=_CHANGE
    ),
    ("GET", SUBJECT + "/metadata"): Operation(
        "the latest version with these properties",
        ref("SchemaVersion"),
        query=(
            Parameter("key", many(TEXT), "names of properties"),
            Parameter("value", many(TEXT), "their values, in the same order"),
            _DELETED,
            _FORMAT,
        ),
        refused=_BAD,
    ),
    ("GET", VERSION): Operation("a version", ref("SchemaVersion"), query=(_DELETED, _FORMAT), refused=_BAD),
    ("DELETE", VERSION): Operation("delete a version", COUNT, query=(_PERMANENT,), refused=_BAD),
    ("GET", VERSION + "/schema"): Operation(
        "the text of the schema", ANYTHING, query=(_DELETED, _FORMAT), refused=_BAD
    ),
    ("GET", VERSION + "/referencedby"): Operation(
        "ids of schemas that refer to the version", many(COUNT), refused=_BAD
    ),
    ("POST", "/compatibility" + SUBJECT + "/versions"): Operation(
        "whether a schema may be registered",
        ref("Compatible"),
        ref("NewSchema"),
        (_VERBOSE, _NORMALIZE),
        refused=_BAD,
    ),
    ("POST", "/compatibility" + VERSION): Operation(
        "whether a schema is compatible with this version",
        ref("Compatible"),
        ref("NewSchema"),
        (_VERBOSE, _NORMALIZE),
        refused=_BAD,
    ),
    ("GET", "/schemas"): Operation(
        "versions with their schemas",
        many(ref("SchemaVersion")),
        query=(_PREFIX, _DELETED, _flag("latestOnly", "only the latest version of each subject"), *_PAGE),
        refused=_BAD,
    ),
    ("GET", "/schemas/types"): Operation("formats of schemas", many(TEXT)),
    ("GET", "/schemas/ids/{id}"): Operation(
        "a schema",
        ref("SchemaText"),
        query=(_SUBJECT, _FORMAT, _flag("fetchMaxId", "include the largest id")),
        refused=_BAD,
    ),
    ("GET", "/schemas/ids/{id}/schema"): Operation(
        "the text of the schema", ANYTHING, query=(_SUBJECT, _FORMAT), refused=_BAD
    ),
    ("GET", "/schemas/ids/{id}/subjects"): Operation(
        "subjects that use the schema", many(TEXT), query=(_SUBJECT, _DELETED, *_PAGE), refused=_BAD
    ),
    ("GET", "/schemas/ids/{id}/versions"): Operation(
        "versions that use the schema",
        many(sent({"subject": TEXT, "version": COUNT})),
        query=(_SUBJECT, _DELETED, *_PAGE),
        refused=_BAD,
    ),
    ("GET", "/schemas/guids/{guid}"): Operation(
        "a schema by its GUID", ref("SchemaText"), query=(_FORMAT,), refused=_BAD
    ),
    ("GET", "/schemas/guids/{guid}/ids"): Operation(
        "ids of the schema", many(sent({"context": TEXT, "id": COUNT})), refused=_BAD
    ),
    **_settings("", "all subjects"),
    **_settings("/{subject}", "a subject"),
    ("GET", "/contexts"): Operation("names of contexts", many(TEXT), query=_PAGE, refused=_BAD),
    ("DELETE", "/contexts/{context}"): Operation("settings of an empty context", None, refused=_BAD),
}
