"""What the schema registry serves.  Pure.  Every path is also there below /contexts/{context}."""

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


_DELETED = _flag("deleted", "also those that were deleted softly")
_DELETED_ONLY = _flag("deletedOnly", "only those that were deleted softly")
_PERMANENT = _flag("permanent", "for good; has to be deleted softly first")
_NORMALIZE = _flag("normalize", "the order of things in a schema does not matter")
_VERBOSE = _flag("verbose", "say what is not compatible")
_INHERITED = _flag("defaultToGlobal", "what is in effect, where nothing was set")
_FORCE = _flag("force", "IMPORT although there are schemas")
_FORMAT = Parameter(
    "format", one_of("resolved", "serialized"), "Avro with its references, Protobuf as a descriptor"
)
_PREFIX = Parameter("subjectPrefix", TEXT, "names that begin so; :.ctx: for a context, :*: for all")
_PAGE = (
    Parameter("offset", INDEX, "how many to leave out"),
    Parameter("limit", INDEX, "how many at most"),
)
_SUBJECT = Parameter("subject", TEXT, "in whose context the id is meant")

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
            **{name: maybe(one) for name, one in _SETTINGS.items()},
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
        # What was sent comes back, as it was sent.
        ("PUT", f"/config{path}"): Operation(
            f"change settings of {whose}", {"type": "object"}, ref("NewConfig"), refused=_BAD
        ),
        ("DELETE", f"/config{path}"): Operation(
            f"take settings of {whose} back", ref("Config"), refused=_BAD
        ),
        ("GET", f"/mode{path}"): Operation(
            f"the mode of {whose}", ref("Mode"), query=(_INHERITED,), refused=_BAD
        ),
        ("PUT", f"/mode{path}"): Operation(
            f"change the mode of {whose}", ref("Mode"), ref("Mode"), (_FORCE,), refused=_BAD
        ),
        ("DELETE", f"/mode{path}"): Operation(f"take the mode of {whose} back", ref("Mode"), refused=_BAD),
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
        "its versions", many(COUNT), query=(_DELETED, _DELETED_ONLY, *_PAGE), refused=_BAD
    ),
    ("POST", SUBJECT + "/versions"): Operation(
        "register a schema", ref("Registered"), ref("NewSchema"), (_NORMALIZE,), refused=_CHANGE
    ),
    ("GET", SUBJECT + "/metadata"): Operation(
        "the newest version with these properties",
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
        "its text alone", ANYTHING, query=(_DELETED, _FORMAT), refused=_BAD
    ),
    ("GET", VERSION + "/referencedby"): Operation(
        "ids of schemas that refer to it", many(COUNT), refused=_BAD
    ),
    ("POST", "/compatibility" + SUBJECT + "/versions"): Operation(
        "whether a schema may be registered",
        ref("Compatible"),
        ref("NewSchema"),
        (_VERBOSE, _NORMALIZE),
        refused=_BAD,
    ),
    ("POST", "/compatibility" + VERSION): Operation(
        "whether a schema goes with this version",
        ref("Compatible"),
        ref("NewSchema"),
        (_VERBOSE, _NORMALIZE),
        refused=_BAD,
    ),
    ("GET", "/schemas"): Operation(
        "versions with their schemas",
        many(ref("SchemaVersion")),
        query=(_PREFIX, _DELETED, _flag("latestOnly", "the newest of each subject"), *_PAGE),
        refused=_BAD,
    ),
    ("GET", "/schemas/types"): Operation("formats of schemas", many(TEXT)),
    ("GET", "/schemas/ids/{id}"): Operation(
        "a schema",
        ref("SchemaText"),
        query=(_SUBJECT, _FORMAT, _flag("fetchMaxId", "the largest id as well")),
        refused=_BAD,
    ),
    ("GET", "/schemas/ids/{id}/schema"): Operation(
        "its text alone", ANYTHING, query=(_SUBJECT, _FORMAT), refused=_BAD
    ),
    ("GET", "/schemas/ids/{id}/subjects"): Operation(
        "subjects that have it", many(TEXT), query=(_SUBJECT, _DELETED, *_PAGE), refused=_BAD
    ),
    ("GET", "/schemas/ids/{id}/versions"): Operation(
        "versions that have it",
        many(sent({"subject": TEXT, "version": COUNT})),
        query=(_SUBJECT, _DELETED, *_PAGE),
        refused=_BAD,
    ),
    ("GET", "/schemas/guids/{guid}"): Operation(
        "a schema by what it says", ref("SchemaText"), query=(_FORMAT,), refused=_BAD
    ),
    ("GET", "/schemas/guids/{guid}/ids"): Operation(
        "its ids", many(sent({"context": TEXT, "id": COUNT})), refused=_BAD
    ),
    **_settings("", "all subjects"),
    **_settings("/{subject}", "a subject"),
    ("GET", "/contexts"): Operation("names of contexts", many(TEXT), query=_PAGE, refused=_BAD),
    ("DELETE", "/contexts/{context}"): Operation("settings of an empty context", None, refused=_BAD),
}
