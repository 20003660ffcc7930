"""AddRaftVoter (api 80), versions 0-1, and RemoveRaftVoter (api 81), version 0.

There is no quorum of controllers to change: both are refused as by an Apache Kafka cluster whose quorum is fixed
(kraft.version 0), so that `kafka-metadata-quorum.sh` ends with words instead of a closed connection."""

from __future__ import annotations

from uuid import UUID

from tidelog import errors
from tidelog.broker.services import Context
from tidelog.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from tidelog.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse

NO_DIRECTORY = UUID(int=0)


def add_raft_voter(request: AddRaftVoterRequest, context: Context) -> AddRaftVoterResponse:
    problem = _refusal("Add", "adding", request, context)
    return AddRaftVoterResponse(error_code=problem.code, error_message=str(problem))


def remove_raft_voter(request: RemoveRaftVoterRequest, context: Context) -> RemoveRaftVoterResponse:
    problem = _refusal("Remove", "removing", request, context)
    return RemoveRaftVoterResponse(error_code=problem.code, error_message=str(problem))


def _refusal(
    verb: str, doing: str, request: AddRaftVoterRequest | RemoveRaftVoterRequest, context: Context
) -> errors.TidelogError:
    own_id = context.services.image().cluster_id
    if request.cluster_id is not None and request.cluster_id != own_id:
        return errors.InconsistentClusterId(
            f'The given id "{request.cluster_id}" doesn\'t match the cluster id "{own_id}"'
        )
    if request.voter_id < 0 or request.voter_directory_id == NO_DIRECTORY:
        return errors.InvalidRequest(f"{verb} voter request didn't include a valid voter")
    return errors.UnsupportedVersion(
        f"Cluster doesn't support {doing} voter because the kraft.version feature is 0"
    )
