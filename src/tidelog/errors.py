"""One exception per error code of the Kafka protocol (Kafka 4.3's list), and the way from code to class.

`raise UnknownTopicOrPartition("no topic 'orders' here: create it first")` carries its own message; without
one the class says what is wrong and what to do.  Everything Tidelog raises on purpose is a `TidelogError`.
"""

from __future__ import annotations

import re
from typing import ClassVar

NONE = 0

_CLASSES: dict[int, type[TidelogError]] = {}


class TidelogError(Exception):
    """`code` and `name` are Kafka's; `retriable` says whether the same request may succeed later.

    A subclass without a code of its own is a finer case of its parent and goes over the wire as the parent.
    """

    code: ClassVar[int] = -1
    name: ClassVar[str] = "UNKNOWN_SERVER_ERROR"
    retriable: ClassVar[bool] = False
    about: ClassVar[str] = "something failed that has no error code of its own: see the broker's log"

    def __init_subclass__(cls, code: int | None = None) -> None:
        super().__init_subclass__()
        if code is not None:
            assert code not in _CLASSES, f"error code {code} is taken by {_CLASSES[code].__name__}"
            cls.code = code
            cls.name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).upper()
            _CLASSES[code] = cls

    def __init__(self, message: str | None = None) -> None:
        super().__init__(self.about if message is None else message)


class Retriable(TidelogError):
    """What Kafka's clients try again by themselves."""

    retriable = True


def by_code(code: int) -> type[TidelogError]:
    """The class of an error code; one from a newer peer is an `UnknownServerError`, as in Kafka's clients."""
    if code == NONE:
        raise ValueError("0 is NONE, which is no error and has no class: check for 0 first")
    return _CLASSES.get(code, UnknownServerError)


def name_of(code: int) -> str:
    """Kafka's name of an error code, for people to read."""
    if code == NONE:
        return "NONE"
    error_class = _CLASSES.get(code)
    return error_class.name if error_class is not None else f"UNKNOWN_ERROR_CODE_{code}"


class UnknownServerError(TidelogError, code=-1):
    about = "the broker met an unexpected error: its log has the details"


class OffsetOutOfRange(TidelogError, code=1):
    about = "the offset is outside of the partition's log: start from the earliest or the latest offset"


class CorruptMessage(Retriable, code=2):
    about = "the record batch fails its checksum or is malformed: send it again"


class UnknownTopicOrPartition(Retriable, code=3):
    about = "no such topic or partition on this broker: check the name, or create the topic"


class InvalidFetchSize(TidelogError, code=4):
    about = "the fetch size is not valid: ask for a positive number of bytes"


class LeaderNotAvailable(Retriable, code=5):
    about = "the partition has no leader right now: try again after an election"


class NotLeaderOrFollower(Retriable, code=6):
    about = "this broker does not lead the partition, or holds no replica of it: refresh the metadata"


class RequestTimedOut(Retriable, code=7):
    about = "the request took longer than its timeout: try again, or allow more time"


class BrokerNotAvailable(TidelogError, code=8):
    about = "the broker is not available: check that it runs and can be reached"


class ReplicaNotAvailable(Retriable, code=9):
    about = "the replica is not available: refresh the metadata and try again"


class MessageTooLarge(TidelogError, code=10):
    about = "a record batch is larger than max.message.bytes: send smaller batches or raise the limit"


class StaleControllerEpoch(TidelogError, code=11):
    about = "the request comes from an older controller: another one has taken over"


class OffsetMetadataTooLarge(TidelogError, code=12):
    about = "the metadata of a committed offset is too long: shorten it or raise offset.metadata.max.bytes"


class NetworkException(Retriable, code=13):
    about = "the connection closed before the answer came: try again"


class CoordinatorLoadInProgress(Retriable, code=14):
    about = "the coordinator is still loading its state: try again shortly"


class CoordinatorNotAvailable(Retriable, code=15):
    about = "the coordinator is not available: look it up again and retry"


class NotCoordinator(Retriable, code=16):
    about = "this broker is not the coordinator: look the coordinator up again"


class InvalidTopicException(TidelogError, code=17):
    about = "not a valid topic name, or not a topic that allows this: use letters, digits, '.', '_' and '-'"


class RecordListTooLarge(TidelogError, code=18):
    about = "the record batch is larger than a log segment: send smaller batches or raise segment.bytes"


class NotEnoughReplicas(Retriable, code=19):
    about = "fewer replicas are in sync than min.insync.replicas: bring followers back, then try again"


class NotEnoughReplicasAfterAppend(Retriable, code=20):
    about = "written, but to fewer replicas than min.insync.replicas: bring followers back, then try again"


class InvalidRequiredAcks(TidelogError, code=21):
    about = "acks must be -1 (all), 0 or 1"


class IllegalGeneration(TidelogError, code=22):
    about = "the generation is not the group's current one: join the group again"


class InconsistentGroupProtocol(TidelogError, code=23):
    about = "the member's protocols do not match those of the group: use one that all members support"


class InvalidGroupId(TidelogError, code=24):
    about = "not a valid group id: give a non-empty one"


class UnknownMemberId(TidelogError, code=25):
    about = "the group has no such member: join the group again"


class InvalidSessionTimeout(TidelogError, code=26):
    about = "session timeout out of bounds: see group.min.session.timeout.ms, group.max.session.timeout.ms"


class RebalanceInProgress(TidelogError, code=27):
    about = "the group is rebalancing: join it again"


class InvalidCommitOffsetSize(TidelogError, code=28):
    about = "the committed offsets take too many bytes: commit fewer at a time"


class TopicAuthorizationFailed(TidelogError, code=29):
    about = "no permission for this topic: ask for an ACL on it"


class GroupAuthorizationFailed(TidelogError, code=30):
    about = "no permission for this group: ask for an ACL on it"


class ClusterAuthorizationFailed(TidelogError, code=31):
    about = "no permission for this operation on the cluster: ask for an ACL on it"


class InvalidTimestamp(TidelogError, code=32):
    about = "the timestamp is out of bounds: see message.timestamp.before.max.ms and .after.max.ms"


class UnsupportedSaslMechanism(TidelogError, code=33):
    about = "the broker does not offer this SASL mechanism: use one of those it lists"


class IllegalSaslState(TidelogError, code=34):
    about = "the request is not allowed at this stage of the SASL exchange: authenticate first"


class UnsupportedVersion(TidelogError, code=35):
    about = "the API, or this version of it, is not supported: ask ApiVersions for what is"


class TopicAlreadyExists(TidelogError, code=36):
    about = "a topic of this name exists already: choose another name"


class InvalidPartitions(TidelogError, code=37):
    about = "the number of partitions is not valid: it must be at least 1, and may only grow"


class InvalidReplicationFactor(TidelogError, code=38):
    about = "the replication factor must be at least 1 and at most the number of brokers"


class InvalidReplicaAssignment(TidelogError, code=39):
    about = "the replica assignment is not valid: name existing brokers, each once per partition"


class InvalidConfig(TidelogError, code=40):
    about = "the setting is unknown or its value is not valid: check its name and its type"


class NotController(Retriable, code=41):
    about = "this node is not the controller: refresh the metadata and ask the controller"


class InvalidRequest(TidelogError, code=42):
    about = "the request is malformed or contradicts itself: check the client and its version"


class UnsupportedForMessageFormat(TidelogError, code=43):
    about = "the message format of the topic does not support this request"


class PolicyViolation(TidelogError, code=44):
    about = "the request breaks a policy set for this cluster: see the broker's settings"


class OutOfOrderSequenceNumber(TidelogError, code=45):
    about = "the sequence number leaves a gap after the last one from this producer: a batch was lost"
    expected: int | None = None
    """The number that comes next, where that is known."""


class DuplicateSequenceNumber(TidelogError, code=46):
    about = "the sequence number was seen before: the batch is a duplicate"


class InvalidProducerEpoch(TidelogError, code=47):
    about = "the producer's epoch is old: another producer has taken over its id"


class InvalidTxnState(TidelogError, code=48):
    about = "the transaction is in a state that does not allow this: begin or end it first"


class InvalidProducerIdMapping(TidelogError, code=49):
    about = "the producer id does not belong to the transactional id: initialise the producer again"


class InvalidTransactionTimeout(TidelogError, code=50):
    about = "the transaction timeout is above transaction.max.timeout.ms: choose a shorter one"


class ConcurrentTransactions(Retriable, code=51):
    about = "another operation on this transaction is under way: try again shortly"


class TransactionCoordinatorFenced(TidelogError, code=52):
    about = "this transaction coordinator has been replaced: a newer one is at work"


class TransactionalIdAuthorizationFailed(TidelogError, code=53):
    about = "no permission for this transactional id: ask for an ACL on it"


class SecurityDisabled(TidelogError, code=54):
    about = "security is switched off on this broker: configure an authorizer first"


class OperationNotAttempted(TidelogError, code=55):
    about = "not attempted, because another part of the request failed: fix that part and send it again"


class KafkaStorageError(Retriable, code=56):
    about = "the log directory of the partition cannot be read or written: check the broker's disk"


class LogDirNotFound(TidelogError, code=57):
    about = "the broker has no such log directory: name one of its log.dirs"


class SaslAuthenticationFailed(TidelogError, code=58):
    about = "authentication failed: check the user name, the credentials and the mechanism"


class UnknownProducerId(TidelogError, code=59):
    about = "the broker has no state for this producer id, its records may have expired: initialise it again"


class ReassignmentInProgress(TidelogError, code=60):
    about = "a reassignment of the partition is under way: wait for it or cancel it"


class DelegationTokenAuthDisabled(TidelogError, code=61):
    about = "delegation tokens are not enabled on this broker: configure them first"


class DelegationTokenNotFound(TidelogError, code=62):
    about = "the broker has no such delegation token: it may have expired"


class DelegationTokenOwnerMismatch(TidelogError, code=63):
    about = "the principal is neither owner nor renewer of the delegation token"


class DelegationTokenRequestNotAllowed(TidelogError, code=64):
    about = "delegation tokens need an authenticated channel that did not itself use a token"


class DelegationTokenAuthorizationFailed(TidelogError, code=65):
    about = "no permission for this delegation token: ask for an ACL on it"


class DelegationTokenExpired(TidelogError, code=66):
    about = "the delegation token has expired: create a new one"


class InvalidPrincipalType(TidelogError, code=67):
    about = "the type of the principal is not supported: use User"


class NonEmptyGroup(TidelogError, code=68):
    about = "the group still has members: stop them first"


class GroupIdNotFound(TidelogError, code=69):
    about = "no such group: check the group id"


class FetchSessionIdNotFound(Retriable, code=70):
    about = "the broker has dropped this fetch session: start a new one"


class InvalidFetchSessionEpoch(Retriable, code=71):
    about = "the epoch of the fetch session is not the expected one: start a new session"


class ListenerNotFound(Retriable, code=72):
    about = (
        "the leader has no listener of the name this client connected to: give all brokers the same listeners"
    )


class TopicDeletionDisabled(TidelogError, code=73):
    about = "topics cannot be deleted here: set delete.topic.enable on the brokers"


class FencedLeaderEpoch(Retriable, code=74):
    about = "the leader epoch is older than the broker's: refresh the metadata"


class UnknownLeaderEpoch(Retriable, code=75):
    about = "the leader epoch is newer than the broker's: try again once the broker has caught up"


class UnsupportedCompressionType(TidelogError, code=76):
    about = "the client's version cannot read this compression type: upgrade it"


class StaleBrokerEpoch(TidelogError, code=77):
    about = "the broker's registration has been replaced by a newer one"


class OffsetNotAvailable(Retriable, code=78):
    about = "the leader is new and does not know yet how far records are committed: try again shortly"


class MemberIdRequired(TidelogError, code=79):
    about = "join again with the member id given in this answer"


class PreferredLeaderNotAvailable(Retriable, code=80):
    about = "the preferred leader is not available: bring the first replica back"


class GroupMaxSizeReached(TidelogError, code=81):
    about = "the group is full: raise group.max.size or use fewer members"


class FencedInstanceId(TidelogError, code=82):
    about = "another member with the same group.instance.id has taken over: give every instance its own"


class EligibleLeadersNotAvailable(Retriable, code=83):
    about = "no replica may become leader: bring one that was in sync back"


class ElectionNotNeeded(Retriable, code=84):
    about = "the partition has the wanted leader already: nothing to do"


class NoReassignmentInProgress(TidelogError, code=85):
    about = "no reassignment of the partition is under way: nothing to cancel"


class GroupSubscribedToTopic(TidelogError, code=86):
    about = "the group is subscribed to the topic: stop it before deleting its offsets"


class InvalidRecord(TidelogError, code=87):
    about = "the broker refuses a record: the answer says which one and why"


class UnstableOffsetCommit(Retriable, code=88):
    about = "offsets of a transaction are not decided yet: try again after it ends"


class ThrottlingQuotaExceeded(Retriable, code=89):
    about = "the quota is used up: try again after the throttle time"


class ProducerFenced(TidelogError, code=90):
    about = "a newer producer with the same transactional id has taken over: stop this one"


class ResourceNotFound(TidelogError, code=91):
    about = "the request names something that does not exist: check the name"


class DuplicateResource(TidelogError, code=92):
    about = "the request names the same thing twice: name it once"


class UnacceptableCredential(TidelogError, code=93):
    about = "the credential is not acceptable: choose other iterations, or a longer password"


class InconsistentVoterSet(TidelogError, code=94):
    about = "the sender or the receiver is not among the expected voters"


class InvalidUpdateVersion(TidelogError, code=95):
    about = "the version of the feature update is not valid"


class FeatureUpdateFailed(TidelogError, code=96):
    about = "the features could not be updated: the controller's log has the details"


class PrincipalDeserializationFailure(TidelogError, code=97):
    about = "the forwarded principal cannot be read: all brokers need the same principal builder"


class SnapshotNotFound(TidelogError, code=98):
    about = "no such snapshot"


class PositionOutOfRange(TidelogError, code=99):
    about = "the position is outside of the snapshot: ask for one from zero up to its size"


class UnknownTopicId(Retriable, code=100):
    about = "no topic with this id on this broker: refresh the metadata"


class DuplicateBrokerRegistration(TidelogError, code=101):
    about = "the broker id is in use: give every broker its own"


class BrokerIdNotRegistered(TidelogError, code=102):
    about = "no broker with this id is registered"


class InconsistentTopicId(Retriable, code=103):
    about = "the topic id differs from the one in the log: the topic was made anew, refresh the metadata"


class InconsistentClusterId(TidelogError, code=104):
    about = "the cluster id is not this cluster's: check the addresses the client connects to"


class TransactionalIdNotFound(TidelogError, code=105):
    about = "no such transactional id: it may have expired"


class FetchSessionTopicIdError(Retriable, code=106):
    about = "the topic ids of the fetch session are inconsistent: start a new session"


class IneligibleReplica(TidelogError, code=107):
    about = "the new in-sync set has a replica that may not be in it"


class NewLeaderElected(TidelogError, code=108):
    about = "the in-sync set was changed, and the leader with it: refresh the metadata"


class OffsetMovedToTieredStorage(TidelogError, code=109):
    about = "the offset lives in tiered storage only: read it from there"


class FencedMemberEpoch(TidelogError, code=110):
    about = "the group coordinator has fenced this member epoch: give up all partitions and join again"


class UnreleasedInstanceId(TidelogError, code=111):
    about = "another member still uses this instance id: it must leave first"


class UnsupportedAssignor(TidelogError, code=112):
    about = "the group does not support this assignor: choose one that the broker lists"


class StaleMemberEpoch(TidelogError, code=113):
    about = "the member epoch is out of date: try again with the one from the next heartbeat"


class MismatchedEndpointType(TidelogError, code=114):
    about = "the request belongs to another kind of endpoint: brokers and controllers differ"


class UnsupportedEndpointType(TidelogError, code=115):
    about = "this kind of endpoint is not supported"


class UnknownControllerId(TidelogError, code=116):
    about = "no controller with this id"


class UnknownSubscriptionId(TidelogError, code=117):
    about = "the telemetry subscription is unknown or out of date: ask for it again"


class TelemetryTooLarge(TidelogError, code=118):
    about = "the telemetry is larger than telemetry.max.bytes: send less at a time"


class InvalidRegistration(TidelogError, code=119):
    about = "the controller refuses the broker's registration: its log has the reason"


class TransactionAbortable(TidelogError, code=120):
    about = "the transaction failed but can be aborted: abort it and go on with the same transactional id"


class InvalidRecordState(TidelogError, code=121):
    about = "the record is in a state that does not allow this acknowledgement: it may have been released"


class ShareSessionNotFound(Retriable, code=122):
    about = "the broker has dropped this share session: start a new one"


class InvalidShareSessionEpoch(Retriable, code=123):
    about = "the epoch of the share session is not the expected one: start a new session"


class FencedStateEpoch(TidelogError, code=124):
    about = "the state epoch of the share group does not match: another coordinator has taken over"


class InvalidVoterKey(TidelogError, code=125):
    about = "the voter's key is not that of the receiving node"


class DuplicateVoter(TidelogError, code=126):
    about = "the voter is in the set already: nothing to add"


class VoterNotFound(TidelogError, code=127):
    about = "the voter is not in the set: nothing to remove"


class InvalidRegularExpression(TidelogError, code=128):
    about = "the regular expression is not valid: use RE2's syntax"


class RebootstrapRequired(TidelogError, code=129):
    about = "the client's metadata is too old: connect through the bootstrap addresses again"


class StreamsInvalidTopology(TidelogError, code=130):
    about = "the topology is not valid: check its subtopologies and topics"


class StreamsInvalidTopologyEpoch(TidelogError, code=131):
    about = "the topology epoch is not valid: it may only grow"


class StreamsTopologyFenced(TidelogError, code=132):
    about = "the topology epoch is out of date: a newer topology is in use"


class ShareSessionLimitReached(Retriable, code=133):
    about = "the broker has as many share sessions as it allows: try again, or use fewer share consumers"
