"""What Apache Kafka 4.3.1 answered to the requests of `refused_requests`: (code, text), recorded by `test_error_words`."""

from __future__ import annotations

RECORDED: dict[str, list[tuple[int, str | None]]] = {
    "create: exists": [(36, "Topic '{topic}' already exists.")],
    "create: no partitions": [(37, "Number of partitions was set to an invalid non-positive value.")],
    "create: minus two partitions": [(37, "Number of partitions was set to an invalid non-positive value.")],
    "create: replication factor 0": [
        (38, "Replication factor must be larger than 0, or -1 to use the default value.")
    ],
    "create: replication factor above the brokers": [
        (
            38,
            "Unable to replicate the partition 9 time(s): The target "
            "replication factor of 9 cannot be reached because only 1 "
            "broker(s) are registered or some brokers have all their log "
            "directories cordoned.",
        )
    ],
    "create: empty name": [(17, "Topic name is invalid: the empty string is not allowed")],
    "create: dot": [(17, "Topic name is invalid: '.' is not allowed")],
    "create: two dots": [(17, "Topic name is invalid: '..' is not allowed")],
    "create: bad letters": [
        (
            17,
            "Topic name is invalid: 'a b' contains one or more characters other than ASCII "
            "alphanumerics, '.', '_' and '-'",
        )
    ],
    "create: long name": [
        (
            17,
            "Topic name is invalid: the length of "
            "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' "  # noqa: E501
            "is longer than the max allowed length 249",
        )
    ],
    "create: unknown setting": [(40, "Unknown topic config name: no.such.setting")],
    "create: bad number": [
        (40, "Invalid value soon for configuration retention.ms: Not a number of type LONG")
    ],
    "create: number out of range": [
        (40, "Invalid value 1 for configuration segment.bytes: Value must be at least 1048576")
    ],
    "create: bad word": [
        (
            40,
            "Invalid value zip for configuration compression.type: String must be one of: uncompressed, "
            "zstd, lz4, snappy, gzip, producer",
        )
    ],
    "create: bad policy": [
        (40, "Invalid value burn for configuration cleanup.policy: String must be one of: compact, delete")
    ],
    "create: null value": [(40, "Null value not supported for topic configs: retention.ms")],
    "create: assignment and count": [
        (42, "A manual partition assignment was specified, but replication factor was not set to -1.")
    ],
    "create: assignment to an unknown broker": [
        (39, "The manual partition assignment includes broker 7, but no such broker is registered.")
    ],
    "create: assignment with a gap": [(39, "partitions should be a consecutive 0-based integer sequence")],
    "create: assignment with a broker twice": [
        (39, "The manual partition assignment includes the broker 1 more than once.")
    ],
    "create: empty assignment": [(39, "The manual partition assignment includes an empty replica list.")],
    "create: internal topic exists": [(42, "Creation of internal topic __cluster_metadata is prohibited.")],
    "grow: unknown topic": [(3, None)],
    "grow: fewer": [(37, "The topic {topic} currently has 2 partition(s); 1 would not be an increase.")],
    "grow: as many": [(37, "Topic already has 2 partition(s).")],
    "grow: negative": [(37, "The topic {topic} currently has 2 partition(s); -1 would not be an increase.")],
    "grow: too few assignments": [
        (39, "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.")
    ],
    "grow: unknown broker": [
        (39, "The manual partition assignment includes broker 7, but no such broker is registered.")
    ],
    "grow: broker twice": [(39, "The manual partition assignment includes the broker 1 more than once.")],
    "grow: empty assignment": [(39, "The manual partition assignment includes an empty replica list.")],
    "delete: unknown": [(3, "This server does not host this topic-partition.")],
    "delete: unknown id": [(100, "This server does not host this topic ID.")],
    "alter: unknown topic": [(3, "The topic '{fresh}' does not exist.")],
    "alter: unknown setting of a topic": [(40, "Unknown topic config name: no.such.setting")],
    "alter: bad number of a topic": [
        (40, "Invalid value soon for configuration retention.ms: Not a number of type LONG")
    ],
    "alter: out of range of a topic": [
        (40, "Invalid value 1 for configuration segment.bytes: Value must be at least 1048576")
    ],
    "alter: append to a number": [(40, "Can't APPEND to key retention.ms because its type is not LIST.")],
    "alter: null": [(42, "Null value not supported for : retention.ms")],
    "alter: fixed setting of a broker": [(42, "Cannot update these configs dynamically: [num.partitions]")],
    "alter: unknown broker": [(42, "Unexpected broker id, expected 1, but received 77")],
    "alter: name of a broker": [(42, "Node id must be an integer, but it is: one")],
    "alter: bad number of a broker": [
        (42, "Invalid value soon for configuration log.retention.ms: Not a number of type LONG")
    ],
    "alter: level of a logger": [
        (
            40,
            "Cannot set the log level of root to LOUD as it is not a supported log level. Valid "
            "log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN",
        )
    ],
    "alter: append to a logger": [(42, "APPEND operation is not allowed for the BROKER_LOGGER resource")],
    "alter: unknown type": [(42, "Unknown resource type 99")],
    "alter: unknown setting of a group": [(40, "Unknown group config name: no.such.setting")],
    "alter: bad number of a group": [
        (40, "Invalid value soon for configuration consumer.session.timeout.ms: Not a number of type INT")
    ],
    "alter: out of range of a group": [
        (
            40,
            "consumer.session.timeout.ms must be greater than or equal to "
            "group.consumer.min.session.timeout.ms",
        )
    ],
    "alter: empty group": [(42, "Default group resources are not allowed.")],
    "replace: unknown topic": [(3, "The topic '{fresh}' does not exist.")],
    "replace: unknown setting": [(40, "Unknown topic config name: no.such.setting")],
    "replace: bad number": [
        (40, "Invalid value soon for configuration retention.ms: Not a number of type LONG")
    ],
    "replace: null": [(42, "Null value not supported for : retention.ms")],
    "describe: unknown topic": [(3, "")],
    "describe: bad topic name": [
        (
            17,
            "Topic name is invalid: 'a b' contains one or more characters other than ASCII "
            "alphanumerics, '.', '_' and '-'",
        )
    ],
    "describe: unknown broker": [(42, "Unexpected broker id, expected 1 or empty string, but received 77")],
    "describe: name of a broker": [(42, "Broker id must be an integer, but it is: one")],
    "describe: logger of another broker": [(42, "Unexpected broker id, expected 1 but received 77")],
    "describe: unknown type": [
        (
            42,
            "This most likely occurs because of a request being malformed by the client library or "
            "the message was sent to an incompatible broker. See the broker logs for more "
            "details.",
        )
    ],
    "reassign: unknown topic": [(3, "Unable to find a topic named {fresh}.")],
    "reassign: unknown partition": [(3, "Unable to find partition {topic}:7.")],
    "reassign: unknown broker": [
        (39, "The manual partition assignment includes broker 7, but no such broker is registered.")
    ],
    "reassign: no replicas": [(39, "The manual partition assignment includes an empty replica list.")],
    "reassign: broker twice": [(39, "The manual partition assignment includes the broker 1 more than once.")],
    "reassign: negative broker": [
        (39, "The manual partition assignment includes broker -1, but no such broker is registered.")
    ],
    "reassign: nothing to cancel": [(85, None)],
    "elect: unknown topic": [(3, "No such topic as {fresh}")],
    "elect: unknown partition": [(3, "No such partition as {topic}-7")],
    "elect: not needed": [(84, "Leader election not needed for topic partition.")],
    "elect: unclean, not needed": [(84, "Leader election not needed for topic partition.")],
    "records: unknown topic": [(3, None)],
    "records: above the end": [(1, None)],
    "quota: unknown key": [(42, "Invalid configuration key no_such_rate")],
    "quota: unknown entity": [(42, "Unhandled client quota entity type: planet")],
    "quota: zero": [(42, "Quota producer_byte_rate must be greater than 0")],
    "quota: negative": [(42, "Quota producer_byte_rate must be greater than 0")],
    "quota: broken number": [(42, "producer_byte_rate cannot be a fractional value.")],
    "quota: no entity": [(42, "Invalid empty client quota entity")],
    "quota: ip and user": [
        (42, "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId")
    ],
    "quota: bad ip": [(42, "nowhere at all is not a valid IP or resolvable host.")],
    "scram: few iterations": [(93, "Too few iterations")],
    "scram: many iterations": [(93, "Too many iterations")],
    "scram: unknown mechanism": [(33, "Unknown SCRAM mechanism")],
    "scram: empty user": [(93, "Username must not be empty")],
    "scram: delete nothing": [(91, "Attempt to delete a user credential that does not exist")],
    "scram: describe nobody": [(91, "Attempt to describe a user credential that does not exist: nobody")],
    "broker: unregister unknown": [(102, "Broker ID 77 is not currently registered")],
    "quorum: other topic": [(3, "This server does not host this topic-partition.")],
    "quorum: add a voter": [
        (35, "Cluster doesn't support adding voter because the kraft.version feature is 0")
    ],
    "quorum: add nobody": [(42, "Add voter request didn't include a valid voter")],
    "quorum: remove a voter": [
        (35, "Cluster doesn't support removing voter because the kraft.version feature is 0")
    ],
    "quorum: remove nobody": [(42, "Remove voter request didn't include a valid voter")],
    "resources: unknown type": [(35, None)],
    "coordinator: unknown kind": [
        (
            42,
            "This most likely occurs because of a request being malformed by the client library "
            "or the message was sent to an incompatible broker. See the broker logs for more "
            "details.",
        )
    ],
    "consumer: empty group": [(42, "GroupId can't be empty.")],
    "consumer: no member id": [(42, "MemberId can't be empty.")],
    "consumer: unknown member": [(69, "Consumer group {group} not found.")],
    "consumer: no timeout": [(42, "RebalanceTimeoutMs must be provided in first request.")],
    "consumer: no subscription": [
        (42, "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
    ],
    "consumer: unknown assignor": [
        (112, "ServerAssignor dice is not supported. Supported assignors: uniform, range.")
    ],
    "consumer: bad pattern": [
        (128, "SubscribedTopicRegex `[` is not a valid regular expression: missing closing ].")
    ],
    "consumer: static without a name": [(42, "InstanceId can't be null.")],
    "consumer: empty instance": [(42, "InstanceId can't be empty.")],
    "consumer: describe unknown": [(69, "Group {group} not found.")],
    "share: describe unknown": [(69, "Group {group} not found.")],
    "groups: describe unknown": [(69, "Group {group} not found.")],
    "groups: delete unknown": [(69, None)],
    "groups: leave unknown": [(25, None)],
    "groups: heartbeat of nobody": [(25, None)],
    "commit: unknown topic": [(3, None)],
    "commit: unknown partition": [(3, None)],
    "commit: member of no group": [(22, None)],
    "offsets: unknown topic": [(3, None)],
    "transactions: list unknown state": [],
    "transactions: timeout too long": [(50, None)],
    "producers: unknown topic": [(3, "This server does not host this topic-partition.")],
    "acls: without an authorizer": [(54, "No Authorizer is configured on the broker")],
    "tokens: without a key": [(64, None)],
    "features: unknown": [
        (
            95,
            "The update failed for all features since the following feature had an error: Invalid update "
            "version 1 for feature flying. Local controller 1 does not support this feature.",
        )
    ],
}
