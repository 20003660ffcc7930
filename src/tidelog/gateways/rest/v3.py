"""REST proxy, version 3: clusters, brokers, topics, partitions and settings, in Confluent's paths and shapes."""

from __future__ import annotations

from itertools import zip_longest
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response

from tidelog import errors
from tidelog.client.admin.configs import ConfigEntry, ConfigResource
from tidelog.client.admin.topics import NewTopic
from tidelog.gateways.http.json_text import JsonAnswer
from tidelog.gateways.http.problem import Problem
from tidelog.gateways.rest.call import Rest, body_of, flag, number, only

TOPIC_GONE = 40403
INT16_MAX = 2**15 - 1
NEW_TOPIC = ("topic_name", "partitions_count", "replication_factor", "configs", "validate_only")


class ClusterLinks:
    """Addresses and names of the resources of one cluster."""

    def __init__(self, request: Request, cluster: str) -> None:
        self._root = f"{request.url.scheme}://{request.url.netloc}/v3/clusters"
        self._cluster = cluster

    def url(self, *parts: object) -> str:
        return "/".join([self._root, *(quote(str(part), safe="") for part in (self._cluster, *parts))])

    def related(self, *parts: object) -> dict[str, str]:
        return {"related": self.url(*parts)}

    def resource(self, kind: str, parts: tuple[object, ...], **fields: Any) -> dict[str, Any]:
        pairs = "/".join(
            f"{_SINGULAR.get(str(name), name)}={value}" if value is not None else str(name)
            for name, value in zip_longest(parts[::2], parts[1::2])
        )
        name = f"crn:///kafka={self._cluster}" + (f"/{pairs}" if pairs else "")
        metadata = {"self": self.url(*parts), "resource_name": name}
        return {"kind": kind, "metadata": metadata, "cluster_id": self._cluster, **fields}

    def listed(self, kind: str, parts: tuple[object, ...], data: list[dict[str, Any]]) -> Response:
        metadata = {"self": self.url(*parts), "next": None}
        return JsonAnswer({"kind": kind, "metadata": metadata, "data": data})


_SINGULAR = {
    "brokers": "broker",
    "topics": "topic",
    "partitions": "partition",
    "configs": "config",
    "broker-configs": "broker-config",
    "replicas": "replica",
    "lags": "lag",
    "assignments": "assignment",
    "consumer-groups": "consumer-group",
    "consumers": "consumer",
}


def _links(rest: Rest, request: Request) -> ClusterLinks:
    return ClusterLinks(request, rest.cluster(request))


# Clusters and brokers


async def _cluster(rest: Rest, request: Request) -> dict[str, Any]:
    links = ClusterLinks(request, rest.around.cluster_id)
    found = await (await rest.around.clients.admin()).describe_cluster()
    return links.resource(
        "KafkaCluster",
        (),
        controller=links.related("brokers", found.controller),
        brokers=links.related("brokers"),
        consumer_groups=links.related("consumer-groups"),
        topics=links.related("topics"),
        broker_configs=links.related("broker-configs"),
        partition_reassignments=links.related("topics", "-", "partitions", "-", "reassignment"),
    )


async def clusters(rest: Rest, request: Request) -> Response:
    url = f"{request.url.scheme}://{request.url.netloc}/v3/clusters"
    metadata = {"self": url, "next": None}
    return JsonAnswer(
        {"kind": "KafkaClusterList", "metadata": metadata, "data": [await _cluster(rest, request)]}
    )


async def cluster(rest: Rest, request: Request) -> Response:
    rest.cluster(request)
    return JsonAnswer(await _cluster(rest, request))


async def _brokers(rest: Rest, links: ClusterLinks) -> list[dict[str, Any]]:
    found = await (await rest.around.clients.admin()).describe_cluster()
    return [
        links.resource(
            "KafkaBroker",
            ("brokers", node.id),
            broker_id=node.id,
            host=node.host,
            port=node.port,
            rack=node.rack,
            configs=links.related("brokers", node.id, "configs"),
        )
        for _, node in sorted(found.nodes.items())
    ]


async def brokers(rest: Rest, request: Request) -> Response:
    links = _links(rest, request)
    return links.listed("KafkaBrokerList", ("brokers",), await _brokers(rest, links))


async def broker(rest: Rest, request: Request) -> Response:
    links, wanted = _links(rest, request), number(request.path_params["broker"], "a broker's id")
    for broker in await _brokers(rest, links):
        if broker["broker_id"] == wanted:
            return JsonAnswer(broker)
    raise Problem(404, f"broker {wanted} does not exist")


# Topics and partitions


def _topic(links: ClusterLinks, topic: Any) -> dict[str, Any]:
    name = topic.name
    return links.resource(
        "KafkaTopic",
        ("topics", name),
        topic_name=name,
        is_internal=name.startswith("__"),
        replication_factor=len(topic.partitions[0].replicas) if topic.partitions else 0,
        partitions_count=len(topic.partitions),
        partitions=links.related("topics", name, "partitions"),
        configs=links.related("topics", name, "configs"),
        partition_reassignments=links.related("topics", name, "partitions", "-", "reassignment"),
    )


async def topics(rest: Rest, request: Request) -> Response:
    links = _links(rest, request)
    data = [_topic(links, rest.image.topics[name]) for name in rest.visible_topics()]
    return links.listed("KafkaTopicList", ("topics",), data)


async def topic(rest: Rest, request: Request) -> Response:
    return JsonAnswer(_topic(_links(rest, request), rest.topic(request, TOPIC_GONE)))


async def create_topic(rest: Rest, request: Request) -> Response:
    links, body = _links(rest, request), await body_of(request)
    only(body, NEW_TOPIC, "a new topic")
    name = body.get("topic_name")
    if not isinstance(name, str):
        raise Problem(400, "topic_name is missing: it must be a string")
    count, copies = body.get("partitions_count"), body.get("replication_factor")
    new = NewTopic(
        name,
        -1 if count is None else number(count, "partitions_count", 1),
        -1 if copies is None else number(copies, "replication_factor", 1, highest=INT16_MAX),
        {key: str(value) for key, value in _changes(body.get("configs") or [], ("name", "value")).items()},
    )
    checked = flag(body, "validate_only")
    admin = await rest.around.clients.admin()
    await admin.create_topics([new], validate_only=checked)
    unseen = links.resource("KafkaTopic", ("topics", name), topic_name=name)
    if checked:
        return JsonAnswer(unseen)
    location = {"location": links.url("topics", name)}
    try:
        made = (await admin.describe_topics([name]))[name]
    except errors.TopicAuthorizationFailed:
        return JsonAnswer(unseen, 201, location)  # who may create it need not be allowed to see it
    return JsonAnswer(_topic(links, made), 201, location)


async def add_partitions(rest: Rest, request: Request) -> Response:
    links, name, body = _links(rest, request), rest.topic(request, TOPIC_GONE).name, await body_of(request)
    only(body, ("partitions_count",), "this")
    admin = await rest.around.clients.admin()
    await admin.create_partitions({name: number(body.get("partitions_count"), "partitions_count", 1)})
    return JsonAnswer(_topic(links, (await admin.describe_topics([name]))[name]))


async def delete_topic(rest: Rest, request: Request) -> Response:
    rest.cluster(request)
    await (await rest.around.clients.admin()).delete_topics([rest.topic(request, TOPIC_GONE).name])
    return Response(status_code=204)


def _partition(links: ClusterLinks, topic: str, partition: Any) -> dict[str, Any]:
    where = ("topics", topic, "partitions", partition.index)
    return links.resource(
        "KafkaPartition",
        where,
        topic_name=topic,
        partition_id=partition.index,
        leader=links.related(*where, "replicas", partition.leader) if partition.leader >= 0 else None,
        replicas=links.related(*where, "replicas"),
    )


async def partitions(rest: Rest, request: Request) -> Response:
    links, found = _links(rest, request), rest.topic(request, TOPIC_GONE)
    data = [_partition(links, found.name, partition) for partition in found.partitions]
    return links.listed("KafkaPartitionList", ("topics", found.name, "partitions"), data)


def one_partition(rest: Rest, request: Request) -> Any:
    found = rest.topic(request, TOPIC_GONE)
    wanted = number(request.path_params["partition"], "a partition")
    for partition in found.partitions:
        if partition.index == wanted:
            return partition
    raise Problem(404, f"topic {found.name!r} has no partition {wanted}", TOPIC_GONE)


async def partition(rest: Rest, request: Request) -> Response:
    links, partition = _links(rest, request), one_partition(rest, request)
    return JsonAnswer(_partition(links, request.path_params["topic"], partition))


# Settings


def _resource(rest: Rest, request: Request) -> tuple[ConfigResource, str, tuple[object, ...], dict[str, Any]]:
    if "broker" in request.path_params:
        node = number(request.path_params["broker"], "a broker's id")
        if node not in rest.image.brokers:
            raise Problem(404, f"broker {node} does not exist")
        fields: dict[str, Any] = {"broker_id": node}
        return ConfigResource("broker", str(node)), "KafkaBrokerConfig", ("brokers", node, "configs"), fields
    if "topic" not in request.path_params:
        fields = {"config_type": "BROKER"}
        return ConfigResource("broker", ""), "KafkaClusterConfig", ("broker-configs",), fields
    name = rest.topic(request, TOPIC_GONE).name
    where = ("topics", name, "configs")
    return ConfigResource("topic", name), "KafkaTopicConfig", where, {"topic_name": name}


def _config(
    links: ClusterLinks, kind: str, where: tuple[object, ...], entry: ConfigEntry, more: Any
) -> dict[str, Any]:
    return links.resource(
        kind,
        (*where, entry.name),
        **more,
        name=entry.name,
        value=entry.value,
        is_default=entry.source.name == "DEFAULT",
        is_read_only=entry.read_only,
        is_sensitive=entry.sensitive,
        source=f"{entry.source.name}_CONFIG",
        synonyms=[],
    )


async def configs(rest: Rest, request: Request) -> Response:
    links = _links(rest, request)
    resource, kind, where, more = _resource(rest, request)
    found = (await (await rest.around.clients.admin()).describe_configs([resource]))[resource]
    return links.listed(f"{kind}List", where, [_config(links, kind, where, entry, more) for entry in found])


async def configs_of_brokers(rest: Rest, request: Request) -> Response:
    """The settings of each broker that runs."""
    links = _links(rest, request)
    nodes = [broker.node_id for broker in rest.image.reachable_brokers]
    resources = {ConfigResource("broker", str(node)): node for node in nodes}
    found = await (await rest.around.clients.admin()).describe_configs(list(resources))
    data = [
        _config(links, "KafkaBrokerConfig", ("brokers", node, "configs"), entry, {"broker_id": node})
        for resource, node in resources.items()
        for entry in found[resource]
    ]
    return links.listed("KafkaBrokerConfigList", ("brokers", "-", "configs"), data)


async def config(rest: Rest, request: Request) -> Response:
    links, name = _links(rest, request), request.path_params["name"]
    resource, kind, where, more = _resource(rest, request)
    found = (await (await rest.around.clients.admin()).describe_configs([resource]))[resource]
    for entry in found:
        if entry.name == name:
            return JsonAnswer(_config(links, kind, where, entry, more))
    raise Problem(404, f"{resource} has no setting {name!r}")


async def set_config(rest: Rest, request: Request) -> Response:
    value = None
    if request.method == "PUT":
        body = await body_of(request)
        only(body, ("value",), "a setting")
        value = body.get("value")
        if not isinstance(value, str):
            message = (
                "is missing: it must be a string" if value is None else f"must be a string, not {value!r}"
            )
            raise Problem(400, f"value {message}")
    return await _alter(rest, request, {request.path_params["name"]: value})


async def alter_configs(rest: Rest, request: Request) -> Response:
    body = await body_of(request)
    only(body, ("data", "validate_only"), "this")
    changes = _changes(body.get("data"), ("name", "value", "operation"))
    return await _alter(rest, request, changes, flag(body, "validate_only"))


def _changes(listed: Any, fields: tuple[str, ...]) -> dict[str, str | None]:
    """The changes in a list of {name, value, operation}."""
    changes: dict[str, str | None] = {}
    for setting in listed if isinstance(listed, list) else [None]:
        if not isinstance(setting, dict) or not isinstance(setting.get("name"), str):
            raise Problem(400, f"settings must be a list of objects with {', '.join(fields)}")
        only(setting, fields, "a setting")
        operation, value = setting.get("operation") or "SET", setting.get("value")
        if operation not in ("SET", "DELETE"):
            raise Problem(400, f"an operation must be SET or DELETE, not {operation!r}")
        if operation == "SET" and not isinstance(value, str):
            raise Problem(400, f"the value of {setting['name']!r} must be a string")
        changes[setting["name"]] = value if operation == "SET" else None
    return changes


async def _alter(
    rest: Rest, request: Request, changes: dict[str, str | None], checked: bool = False
) -> Response:
    rest.cluster(request)
    resource, *_ = _resource(rest, request)
    await (await rest.around.clients.admin()).alter_configs({resource: changes}, validate_only=checked)
    return Response(status_code=204)
