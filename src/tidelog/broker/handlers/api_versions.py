"""ApiVersions (api 18), versions 0-4: what is really served, with Kafka's one exception.

Produce is advertised from version 0: some releases of librdkafka take a larger minimum as a sign that compression is not
supported.  Versions below 3 are refused all the same.  A version of ApiVersions that is not served is answered in
version 0, so that the client can step back."""

from __future__ import annotations

import re
from collections.abc import Container

from tidelog import errors
from tidelog.broker.routes import API_VERSIONS, PRODUCE, ROUTES, TWO_PHASE
from tidelog.broker.services import Context
from tidelog.metadata.features import FINALIZED, SUPPORTED
from tidelog.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

TELEMETRY = frozenset(("GetTelemetrySubscriptions", "PushTelemetry"))
SOFTWARE_CHARACTERS_MAX = 100
_SOFTWARE_FROM = 3
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def api_versions(request: ApiVersionsRequest, context: Context) -> ApiVersionsResponse:
    if context.version >= _SOFTWARE_FROM and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=errors.InvalidRequest.code)
    if context.version >= _SOFTWARE_FROM:
        session = context.session
        session.software_name = request.client_software_name[:SOFTWARE_CHARACTERS_MAX]
        session.software_version = request.client_software_version[:SOFTWARE_CHARACTERS_MAX]
    # As in Kafka, clients are not troubled with telemetry that nobody wants.
    hidden = () if context.services.image().client_metrics else TELEMETRY
    return ApiVersionsResponse(
        api_keys=_served(hidden, context.services.config().transaction_two_phase_commit_enable),
        supported_features=[
            SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in SUPPORTED.items()
            # Clients before version 4 refuse a feature that starts at 0.
            if low > 0 or context.version >= 4
        ],
        finalized_features_epoch=context.services.image().revision,
        finalized_features=[
            FinalizedFeatureKey(name=name, min_version_level=feature_level, max_version_level=feature_level)
            for name, feature_level in FINALIZED.items()
        ],
    )


def unsupported_version() -> ApiVersionsResponse:
    low, high = ROUTES[API_VERSIONS].min_version, ROUTES[API_VERSIONS].max_version
    return ApiVersionsResponse(
        error_code=errors.UnsupportedVersion.code,
        api_keys=[ApiVersion(api_key=API_VERSIONS, min_version=low, max_version=high)],
    )


def _served(hidden: Container[str], two_phase: bool) -> list[ApiVersion]:
    return [
        ApiVersion(
            api_key=route.api_key,
            min_version=0 if route.api_key == PRODUCE else route.min_version,
            max_version=TWO_PHASE[1] if two_phase and route.api_key == TWO_PHASE[0] else route.max_version,
        )
        for route in ROUTES.values()
        if route.name not in hidden
    ]
