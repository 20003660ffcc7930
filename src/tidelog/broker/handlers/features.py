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

_RESULTS_UP_TO = 1
_UPGRADE_TYPES = (1, 2, 3)  # upgrade, safe downgrade, unsafe downgrade


def update_features(request: UpdateFeaturesRequest, context: Context) -> UpdateFeaturesResponse:
    problems = {update.feature: _problem(update, context.version) for update in request.feature_updates}
    first = next((problem for problem in problems.values() if problem is not None), None)
    if context.version > _RESULTS_UP_TO:
        # All or nothing: one refusal speaks for the whole request.
        if first is None:
            return UpdateFeaturesResponse(error_message=None)
        return UpdateFeaturesResponse(error_code=first.code, error_message=str(first))
    return UpdateFeaturesResponse(
        error_message=None,
        results=[
            UpdatableFeatureResult(
                feature=feature,
                error_code=0 if problem is None else problem.code,
                error_message=None if problem is None else str(problem),
            )
            for feature, problem in problems.items()
        ],
    )


def _problem(update: FeatureUpdateKey, version: int) -> errors.TidelogError | None:
    feature, level = update.feature, update.max_version_level
    if version >= 1 and update.upgrade_type not in _UPGRADE_TYPES:
        return errors.InvalidRequest(f"there is no upgrade of type {update.upgrade_type}")
    if feature not in SUPPORTED:
        return errors.InvalidUpdateVersion(f"feature {feature!r} is not supported here")
    if level == FINALIZED.get(feature):
        return None
    low, high = SUPPORTED[feature]
    return errors.InvalidUpdateVersion(f"{feature} can be at level {low} to {high} here, not {level}")
