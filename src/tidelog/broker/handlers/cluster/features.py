"""UpdateFeatures (api 57), versions 0-2.

Every feature has one level only, so an update to that level changes nothing and any other is refused."""

from __future__ import annotations

from tidelog import errors
from tidelog.broker.services import Context
from tidelog.metadata.features import FINALIZED, SUPPORTED
from tidelog.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

_TYPES_FROM = 1
_UPGRADE_TYPES = (1, 2, 3)  # upgrade, safe downgrade, unsafe downgrade


def update_features(request: UpdateFeaturesRequest, context: Context) -> UpdateFeaturesResponse:
    """All or nothing: one refusal speaks for the whole request."""
    try:
        for update in request.feature_updates:
            _check(update, context.version)
    except errors.TidelogError as problem:
        return UpdateFeaturesResponse(error_code=problem.code, error_message=str(problem))
    # Newer versions than 1 do not carry them.
    results = [
        UpdatableFeatureResult(feature=update.feature, error_message="NONE")
        for update in request.feature_updates
    ]
    return UpdateFeaturesResponse(error_message=None, results=results)


def _check(update: FeatureUpdateKey, version: int) -> None:
    feature, feature_level = update.feature, update.max_version_level
    if version >= _TYPES_FROM and update.upgrade_type not in _UPGRADE_TYPES:
        raise errors.InvalidUpdateVersion(f"there is no upgrade of type {update.upgrade_type}")
    if feature not in SUPPORTED:
        raise errors.InvalidUpdateVersion(f"feature {feature!r} is not supported here")
    if feature_level != FINALIZED.get(feature):
        low, high = SUPPORTED[feature]
        raise errors.InvalidUpdateVersion(
            f"{feature} can be at level {low} to {high} here, not {feature_level}"
        )
