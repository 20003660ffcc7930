"""The one place where a broker's objects are built, started in order, and stopped in reverse."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from tidelog import errors
from tidelog.app.advertised import Bound, endpoints_of, http_address, own_address, own_names, shown
from tidelog.app.broker_replication import BrokerReplication
from tidelog.app.compaction_pace import pace_compaction
from tidelog.app.encryption_at_rest import EncryptionAtRest
from tidelog.app.environment import BrokerEnvironment
from tidelog.app.first_users import add_first_users
from tidelog.app.known_revision import KnownRevision
from tidelog.app.peer_security import ListenerPeers
from tidelog.app.remote_storage import RemoteStorage
from tidelog.app.replica_condition import ReplicaConditions, claim_logs
from tidelog.app.security_warnings import powerless_broker
from tidelog.broker.access import Access
from tidelog.broker.audit.topic_writer import AuditTopicWriter
from tidelog.broker.audit.trail import AuditTrail, audit_settings
from tidelog.broker.bounds.connection_quotas import address_rates
from tidelog.broker.bounds.quota_manager import QuotaManager
from tidelog.broker.fetch_sessions import FetchSessions
from tidelog.broker.gate import Gate
from tidelog.broker.handlers.transactions.share_enlistment import enlists
from tidelog.broker.jwks import KeySource
from tidelog.broker.login import Logins
from tidelog.broker.metrics.counters import BrokerCounters
from tidelog.broker.metrics.load_meter import LoadMeter
from tidelog.broker.metrics.metric_sources import MetricSources
from tidelog.broker.router import Router
from tidelog.broker.server import Server
from tidelog.broker.services import Services
from tidelog.broker.telemetry.otlp_exporter import new_exporter
from tidelog.broker.tenant_storage import TenantStorage
from tidelog.config import BrokerConfig
from tidelog.config.amqp import amqp_listeners
from tidelog.config.cordoned_dirs import cordoned_paths
from tidelog.config.first_users import FirstUser
from tidelog.coordination.runtime import CoordinatorRuntime
from tidelog.groups.classic.coordinator import ClassicGroups
from tidelog.groups.consumer.classic_members_coordinator import ClassicMembers
from tidelog.groups.consumer.coordinator import ConsumerGroups
from tidelog.groups.coordinator import Groups
from tidelog.groups.group_directory import GroupDirectory
from tidelog.groups.offsets.coordinator import OffsetCoordinator
from tidelog.groups.share.coordinator import ShareGroups
from tidelog.groups.share.offsets import ShareOffsets
from tidelog.groups.share.other_brokers import ClusterPersister, RemotePartitions
from tidelog.groups.share.partitions import SharePartitions
from tidelog.groups.share.state_coordinator import ShareStateCoordinator
from tidelog.groups.streams.coordinator import StreamsGroups
from tidelog.metadata.access.access_records import CredentialName
from tidelog.metadata.controller import Controller
from tidelog.metadata.elections.unclean_restart import known_directories, remember_directories, report
from tidelog.metadata.isr_and_election_counts import IsrAndElectionCounts
from tidelog.metadata.producer_ids import ProducerIdAllocator, skip_ids
from tidelog.metadata.records import BrokerRecord, Endpoint
from tidelog.metadata.registration import Registration, await_place
from tidelog.metadata.store import MetadataStore
from tidelog.queues.service import Queues
from tidelog.registry.coordinator import SchemaRegistry
from tidelog.replication.copy_pacer import CopyPacer
from tidelog.replication.directory_failure import DirectoryFailure
from tidelog.replication.partition import HostedPartition
from tidelog.replication.partitions import Partitions
from tidelog.storage.background import Background, Intervals
from tidelog.storage.compaction.cleaner import Cleanable, Cleaner
from tidelog.storage.compaction.runner_pool import RunnerPool
from tidelog.storage.dirs.log_dir import LogDirectory
from tidelog.storage.dirs.log_dirs import LogDirs
from tidelog.storage.disk import Disk
from tidelog.storage.integrity.scrubber import Scrubber, ScrubPace
from tidelog.storage.open_files import OpenFiles
from tidelog.storage.recovery.recovery import Report
from tidelog.transactions.coordinator import TransactionCoordinator
from tidelog.transactions.markers import TransactionMarkers
from tidelog.types import NodeId, TopicPartition

if TYPE_CHECKING:
    from tidelog.gateways.http.services import GatewayServices as Gateways

log = logging.getLogger("tidelog")

GRACE_MS = 2_000
FILES_SPARE = 64  # descriptors for what is neither a segment nor a connection


class Addresses(NamedTuple):
    kafka: tuple[str, int]
    http: tuple[str, int] | None


class Broker:
    """`start`, then `stop`, once each."""

    def __init__(
        self, config: BrokerConfig, around: BrokerEnvironment, first_users: Sequence[FirstUser] = ()
    ) -> None:
        """`first_users` are added to the metadata, unless they are there, before anybody can connect."""
        self._given = config
        self._first_users = first_users
        self.users_added: frozenset[CredentialName] = frozenset()
        self._around = around
        self._stopping = False
        self._incarnation = f"{around.random.getrandbits(64):x}"
        self._tasks: list[asyncio.Task[Any]] = []
        self._background: Background | None = None
        self._cleaners: list[Cleaner] = []
        self._runners: RunnerPool | None = None
        self._scrubbers: list[Scrubber] = []
        self._undo = AsyncExitStack()  # what stops the things that were started, the last one first
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Fails when something without which the broker is of no use has failed."""

    async def start(self) -> Addresses:
        """What was started before something failed is stopped again: the data are as after a clean stop."""
        try:
            return await self._start()
        except (Exception, asyncio.CancelledError):
            await self._undo.aclose()
            raise

    async def _start(self) -> Addresses:
        around, node, given = self._around, NodeId(self._given.node_id), self._given
        # Neither clients nor segments may take what the other needs, nor the little that everything else does.
        files = OpenFiles(min(given.tidelog_open_files_max, around.descriptors_max // 2))
        spare = min(FILES_SPARE + given.tidelog_http_connections_max, around.descriptors_max // 4)
        places = [(around.disk(path), os.path.abspath(path)) for path in given.log_dirs]
        self._store: MetadataStore = await around.store(given.log_dirs[0])
        self._undo.push_async_callback(self._store.close)
        for disk, _ in places:
            self._undo.callback(disk.close)
        self._controller = controller = await Controller.start(self._store, node, given, around.random)
        self._dirs = await self._log_dirs(places, files)
        self._remote = await RemoteStorage.open(given, controller, self._dirs, places, around)
        self._known_revision = KnownRevision(self._dirs, controller)
        await self._come_back(node)
        pace = CopyPacer(around.clock, self._directory_copy_rate)
        self._partitions = Partitions(node, self._dirs, controller.image, controller.topic_config, pace)
        await self._partitions.start()
        self._replicating = BrokerReplication(
            node,
            controller,
            self._partitions,
            self._dirs,
            around,
            self._inter_broker_listener(),
            self._truncated,
        )
        self._partitions.lease_proven = self._replicating.lease_is_proven
        self._start_coordinators(node)
        self._shifts = IsrAndElectionCounts(node)
        services = self._services(node)
        router = Router(services)
        connections_max = around.descriptors_max - files.limit - spare
        self._check_keytabs()
        self._server = Server(controller.config, around.network, router, connections_max)
        self._undo.callback(self._server.stop_listening)
        bound = self._server.bind()
        http = self._bind_gateways(bound)
        self._undo.push_async_callback(self._end_tasks)
        self._run(self._follow(), "following the metadata")
        if self._encryption.configured:
            self._run(self._encryption.run(), "watching the keys of encryption")
        self.users_added = await add_first_users(controller, self._first_users)
        endpoints = endpoints_of(given, bound, around.host_name())
        await self._register(node, endpoints, http)
        self._tenant_storage = TenantStorage(node, self._dirs, controller, self._gate)
        self._run(self._tenant_storage.run(), "measuring what tenants store")
        self._repair = self._replicating.repair(self._dirs, self._whole_again)
        self._run(self._repair.run(), "repairing logs")
        await self._replicating.start()
        self._undo.push_async_callback(self._replicating.stop)
        # Before: whoever still heard of a new leader would follow it, and append to logs that are being closed.
        self._undo.push_async_callback(self._end_tasks)
        self._start_housekeeping()
        self._undo.push_async_callback(self._partitions.stop)
        self._undo.push_async_callback(self._share_shards.stop)
        self._undo.push_async_callback(self._shares.stop)
        self._undo.push_async_callback(self._queues.stop)
        self._undo.push_async_callback(self._groups.stop)
        self._undo.push_async_callback(self._transactions.stop)
        self._undo.push_async_callback(self._registry.stop)
        self._start_forwarding(node, services)
        self._undo.push_async_callback(self._server.stop, GRACE_MS)
        self._undo.push_async_callback(self._hand_over)
        self._server.start()
        if given.http_logs_in or given.authorizes:
            # Brokers tell each other with the secret on whose behalf they ask.
            await controller.access.ensure_secret()
        await self._start_gateways(services, bound, endpoints)
        return Addresses(next(iter(bound.values())), http)

    async def _start_gateways(
        self, services: Services, bound: Bound, endpoints: tuple[Endpoint, ...]
    ) -> None:
        """Gateways are clients of this broker: they end before it does."""
        if self._amqp is not None:
            await self._amqp.start(services, self._store, self._incarnation)
            self._undo.push_async_callback(self._amqp.stop)
        if self._http is not None:
            self._http.start(self._behind_http(services, bound, endpoints))
            self._undo.push_async_callback(self._http.stop)

    async def _log_dirs(self, places: Sequence[tuple[Disk, str]], files: OpenFiles) -> LogDirs:
        around, given, controller = self._around, self._given, self._controller
        self._encryption = EncryptionAtRest(given, places, around.random)
        await self._encryption.load()
        disks = [(self._encryption.disk(disk, self._key_of_topic), path) for disk, path in places]
        dirs = [LogDirectory(path, disk, around.clock, around.random, files) for disk, path in disks]
        cordoned = lambda: cordoned_paths(given.log_dirs, controller.config().cordoned_log_dirs)  # noqa: E731
        return LogDirs(dirs, controller.topic_config, cordoned)

    def _directory_copy_rate(self) -> int:
        return self._controller.config().replica_alter_log_dirs_io_max_bytes_per_second

    def _key_of_topic(self, name: str, topic_id: UUID | None) -> str:
        """What a new file of the topic is to be encrypted with.  Folders of long names are known by the id alone."""
        topic = None if topic_id is None else self._controller.newest.topic_by_id(topic_id)
        return self._controller.topic_config(name if topic is None else topic.name).encryption_key

    async def _register(
        self, node: NodeId, endpoints: tuple[Endpoint, ...], http: tuple[str, int] | None
    ) -> None:
        """From here on this broker takes part in the cluster."""
        around, given, controller = self._around, self._given, self._controller
        record = BrokerRecord(
            endpoints,
            given.broker_rack,
            http=http_address(given, http, endpoints),
            home=self._dirs.home_id,
            incarnation=self._incarnation,
            machine=given.tidelog_machine or None,
            log_dirs=given.log_dirs,
            cordoned_log_dirs=given.cordoned_log_dirs,
        )
        registration = Registration(self._store, node, record, around.clock, given.tidelog_broker_lease_ms)
        self._undo.push_async_callback(registration.end)
        active_controller = self._replicating.active_controller(self._store, registration)
        await controller.reached(await registration.register())
        self._run(registration.keep(), "keeping the registration")
        self._run(active_controller.run(), "the controller's duties")
        self._run(self._replicating.in_sync.run(), "watching in-sync sets")
        self._run(self._replicating.rollback.run(), "comparing logs with the metadata")
        self._run(self._replicating.leaderless.run(), "reporting logs in doubt that have grown")
        self._run(DirectoryFailure(node, self._dirs, controller).run(), "watching disks")
        self._run(self._known_revision.run(), "keeping the revision of the metadata")
        self._undo.callback(self._known_revision.remember)

    async def _come_back(self, node: NodeId) -> None:
        """Recovers the logs, and reports in the metadata what the end of the last run may have cost.  Until that is done
        the next start has to know of it too."""
        controller, dirs, store = self._controller, self._dirs, self._store
        forget = self._given.tidelog_log_dirs_forget_missing
        _tell(await dirs.recover(controller.image.cluster_id, node, forget))
        try:
            lease_ms = self._given.tidelog_broker_lease_ms
            await await_place(store, node, dirs.home_id, self._around.clock, lease_ms)
            await controller.read_again()
            topic_ids = await claim_logs(dirs, controller.image, node)
            conditions = ReplicaConditions(dirs, topic_ids, await known_directories(store, node))
            rolled_back = self._known_revision.was_rolled_back(self._given.tidelog_metadata_restored)
            if rolled_back:
                await skip_ids(store, self._around.random)
            await report(store, node, conditions.look, conditions.unclean, conditions.at_risk, rolled_back)
            await remember_directories(store, node, dirs.ids, forget)
            await controller.read_again()
            self._known_revision.remember()
        except BaseException:
            await dirs.stop(clean=False)
            raise
        dirs.began()
        self._undo.push_async_callback(dirs.stop)

    def _start_coordinators(self, node: NodeId) -> None:
        controller = self._controller
        clock, peers = self._around.clock, self._replicating.peers
        self._groups = Groups(node, controller, self._partitions, clock)
        self._classic_groups = ClassicGroups(self._groups, self._around.random)
        self._consumer_groups = ConsumerGroups(self._groups, self._classic_groups, self._around.random)
        self._streams_groups = StreamsGroups(self._groups, self._classic_groups, controller)
        self._share_shards = ShareStateCoordinator(node, controller, self._partitions, clock)
        self._elsewhere = RemotePartitions(node, self._partitions, peers)
        persister = ClusterPersister(node, controller, self._share_shards, peers)
        self._shares = SharePartitions(controller, self._partitions, persister, self._elsewhere, clock)
        self._share_groups = ShareGroups(self._groups, self._shares, persister)
        self._queues = Queues(
            controller, self._partitions, self._shares, persister, self._elsewhere, peers, self._around.random
        )
        self._group_offsets = OffsetCoordinator(self._groups, self._classic_groups)
        self._group_offsets.start()
        self._groups.start()
        self._share_shards.start()
        self._producer_ids = ProducerIdAllocator(self._store)
        coordinators: dict[str, CoordinatorRuntime[Any]] = {
            self._groups.topic.name: self._groups.coordinator,
            self._share_shards.topic.name: self._share_shards.coordinator,
        }
        self._share_shards.decided.append(self._shares.transaction_decided)
        self._markers = TransactionMarkers(node, self._partitions, coordinators, clock, peers)
        self._transactions = TransactionCoordinator(
            node, controller, self._partitions, clock, self._producer_ids, self._markers, peers
        )
        self._transactions.start()
        self._registry = SchemaRegistry(node, controller, self._partitions, clock)
        self._registry.start()

    def _check_keytabs(self) -> None:
        if doors := self._given.kerberos_doors:
            from tidelog.broker.kerberos import check_keytabs

            check_keytabs(doors)

    def _start_forwarding(self, node: NodeId, services: Services) -> None:
        """Audit events to their topic, and metrics of clients to their receiver: both end after the server."""
        if (exporter := services.otlp_exporter) is not None:
            self._run(exporter.run(), "forwarding the metrics of clients")
            self._undo.push_async_callback(exporter.stop)
        if not self._given.audits or not self._given.tidelog_audit_topic:
            return
        writer = AuditTopicWriter(
            node,
            self._gate.audit,
            self._controller,
            self._partitions,
            self._replicating.peers,
            self._around.clock,
        )
        self._run(writer.run(), "writing audit events")
        self._undo.push_async_callback(writer.stop)

    def _start_housekeeping(self) -> None:
        self._queues.start()
        config, around = self._controller.config(), self._around
        self._run(self._remote.run(self._partitions), "keeping remote storage")
        intervals = Intervals(
            first_ms=config.log_initial_task_delay_ms,
            retention_ms=config.log_retention_check_interval_ms,
            recovery_points_ms=config.log_flush_offset_checkpoint_interval_ms,
            log_starts_ms=config.log_flush_start_offset_checkpoint_interval_ms,
            committed_ms=config.replica_high_watermark_checkpoint_interval_ms,
            producer_expiration_ms=config.producer_id_expiration_ms,
        )
        self._background = Background(self._dirs, around.clock, intervals, self._partitions.committed_of)
        self._run(self._background.run(), "housekeeping")
        for where in self._dirs.dirs:
            scrubber = Scrubber(where, self._controller.topic_config, self._scrub_pace)
            self._scrubbers.append(scrubber)
            self._run(scrubber.run(), f"scrubbing {where.path}")
        disk = self._dirs.dirs[0].volume.disk
        runner = self._runners = RunnerPool(lambda: around.runner(disk), config.log_cleaner_threads)
        self._undo.push_async_callback(runner.close)
        if not config.log_cleaner_enable:
            return
        memory_bytes = config.log_cleaner_dedupe_buffer_size
        for where in self._dirs.dirs:
            cleaner = Cleaner(
                where.volume,
                partial(self._cleanable, where),
                runner,
                memory_bytes,
                config.log_cleaner_backoff_ms,
            )
            self._cleaners.append(cleaner)
            self._partitions.forgotten.append(cleaner.removed)
            self._run(cleaner.run(), f"compaction in {where.path}")
        pace_compaction(self._runners, self._cleaners, config)

    def _whole_again(self, name: TopicPartition) -> None:
        for cleaner in self._cleaners:
            cleaner.repaired(name)

    def _scrub_pace(self) -> ScrubPace:
        config = self._controller.config()
        return ScrubPace(config.tidelog_scrub_period_ms, config.tidelog_scrub_bytes_per_second)

    def _truncated(self, partition: HostedPartition) -> None:
        for cleaner in self._cleaners:
            cleaner.truncated(partition.name, partition.log.end)

    def _inter_broker_listener(self) -> str:
        named = self._given.inter_broker_listener
        if named not in [listener.name for listener in self._given.listeners]:
            raise errors.InvalidConfig(
                f"inter.broker.listener.name is {named}, which listeners does not have"
            )
        return named

    def _cleanable(self, where: LogDirectory) -> list[Cleanable]:
        cleanable = []
        for name, log in list(where.logs.items()):
            if "compact" not in log.config.cleanup_policy:
                continue  # asked every few seconds, of thousands
            partition = self._partitions.of_log(name)
            if partition is not None and partition.log is log:
                cleanable.append(Cleanable(log, partition.last_stable))
        return cleanable

    def _services(self, node: NodeId) -> Services:
        around, controller = self._around, self._controller
        # Of the newest metadata: `_follow` tells the gate of an update before `image` has it, and a right that was taken
        # away must be gone from that moment on.
        access = Access(lambda: controller.newest, controller.config, around.random)
        self._access = access
        quotas = QuotaManager(
            lambda: access.quotas,
            lambda: access.quota_windows,
            lambda: access.mutation_windows,
            around.clock.monotonic_ms,
            lambda: access.tenants,
        )
        audit = AuditTrail(node, lambda: audit_settings(controller.config()), around.clock)
        topic = self._given.tidelog_audit_topic if self._given.audits else ""
        self._gate = gate = Gate(
            lambda: access.authorizer, quotas, lambda: access.tenants, audit, lambda: topic
        )
        self._address_rates = address_rates(gate.quotas, around.clock)
        gate.learned()
        keys = KeySource(around.clock)
        services = Services(
            node_id=node,
            clock=around.clock,
            random=around.random,
            config=controller.config,
            image=lambda: controller.image,
            controller=controller,
            partitions=self._partitions,
            log_dirs=self._dirs,
            producer_ids=self._producer_ids,
            sessions=FetchSessions(
                self._given.max_incremental_fetch_session_cache_slots,
                lambda: around.random.randint(1, (1 << 31) - 1),
            ),
            groups=self._groups,
            transactions=self._transactions,
            markers=self._markers,
            registry=self._registry,
            gate=gate,
            access=access,
            logins=Logins(gate, access, controller.config, around.clock, keys),
            classic_groups=self._classic_groups,
            classic_members=ClassicMembers(self._consumer_groups, self._classic_groups),
            consumer_groups=self._consumer_groups,
            streams_groups=self._streams_groups,
            group_offsets=self._group_offsets,
            share_groups=self._share_groups,
            share_offsets=ShareOffsets(self._groups, self._share_groups, self._shares, self._elsewhere),
            share_shards=self._share_shards,
            shares=self._shares,
            queues=self._queues,
            group_directory=GroupDirectory(self._groups, self._classic_groups),
            in_sync=self._replicating.in_sync,
            counters=BrokerCounters(self._given.tidelog_metrics_clients_max),
            outbound=self._replicating.outbound,
            otlp_exporter=new_exporter(self._controller.config, around.random),
        )
        self._share_shards.enlist = enlists(services)
        return services

    def _bind_gateways(self, bound: Bound) -> tuple[str, int] | None:
        """The address of the HTTP port; `bound` gets the listeners of AMQP."""
        self._http = self._amqp = None
        if amqp_listeners(self._given.listeners):
            from tidelog.gateways.amqp.server import AmqpServer

            self._amqp = AmqpServer(self._address_rates)
            self._undo.callback(self._amqp.stop_listening)
            bound |= self._amqp.bind(self._controller.config)
        if not self._around.http:
            return None
        from tidelog.gateways.http.server import HttpServer
        from tidelog.gateways.http.tls import server_tls

        self._http = HttpServer()
        self._undo.push_async_callback(self._http.stop)
        host, port = self._given.tidelog_http_listen
        return host, self._http.bind(host, port, server_tls(self._controller.config))

    def _behind_http(self, services: Services, bound: Bound, endpoints: tuple[Endpoint, ...]) -> Gateways:
        from tidelog.gateways.http.clients import GatewayClients, Loopback
        from tidelog.gateways.http.services import GatewayServices as Gateways
        from tidelog.gateways.http.tls import peer_tls

        listener, config = self._inter_broker_listener(), self._controller.config
        bootstrap, loopback = own_address(bound[listener]), None
        if config().http_logs_in:
            security = ListenerPeers(config)
            loopback = Loopback(services.logins.sign_on_behalf, security.tls)
            if self._given.security[listener].encrypts:
                # The name that the certificate is for.
                own = next(endpoint for endpoint in endpoints if endpoint.listener == listener)
                bootstrap = shown(own.host, own.port)
        clients = GatewayClients(bootstrap, loopback)
        names = own_names(self._given, endpoints, self._around.host_name())
        load_meter = LoadMeter(self._partitions.counts)
        self._run(load_meter.run(), "measuring the load")
        figures = MetricSources(
            self._server,
            load_meter,
            self._shifts,
            self._cleaners,
            self._replicating.peers,
            self._scrubbers,
            self._repair,
            self._tenant_storage,
            self._remote.figures,
        )
        return Gateways(
            services,
            self._unready,
            bootstrap,
            figures,
            clients,
            names,
            self._amqp,
            peer_tls(self._controller.config),
            self._address_rates,
        )

    def powerless(self) -> str | None:
        """Why this broker may not do its part for the others, or None."""
        return powerless_broker(self._controller.config(), self._access.authorizer)

    def _unready(self) -> str | None:
        if not self._dirs.online():
            return f"no log directory works: {', '.join(where.path for where in self._dirs.dirs)}"
        return None

    async def _follow(self) -> None:
        async for update in self._controller.follow():
            self._shifts.applied(update)
            self._gate.learned()
            await self._partitions.apply(update)
            await self._replicating.apply(update)
            self._share_shards.apply(update)
            self._groups.apply(update)
            self._shares.apply(update)
            self._queues.apply(update)
            self._transactions.apply(update)
            self._registry.apply(update)
            if update.broker_configs:
                self._hand_on_settings()
            self._remote.apply(update)
            self._replicating.applied(update)

    def _hand_on_settings(self) -> None:
        """Hands on the settings that can change while the broker runs; the server and handlers read theirs each time."""
        config = self._controller.config()
        if self._background is not None:
            self._background.expire_producers_after(config.producer_id_expiration_ms)
        pace_compaction(self._runners, self._cleaners, config)

    def _run(self, work: Coroutine[Any, Any, None], doing: str) -> None:
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(lambda task: self._task_ended(task, doing))
        self._tasks.append(task)

    def _task_ended(self, task: asyncio.Task[None], doing: str) -> None:
        """No task ends by itself, and the broker cannot run without any of them."""
        problem = asyncio.CancelledError("cancelled") if task.cancelled() else task.exception()
        if problem is not None and not self._stopping and not self.ended.done():
            log.critical("%s failed", doing, exc_info=problem)
            self.ended.set_exception(errors.UnknownServerError(f"{doing} failed: {problem}"))
            self.ended.exception()  # it is in the log: nobody has to ask for it

    async def _end_tasks(self) -> None:
        self._stopping = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _hand_over(self) -> None:
        """A broker whose task has failed may not hear of the metadata any more: others wait for its lease to end."""
        if not self.ended.done() and self._controller.config().controlled_shutdown_enable:
            await self._replicating.hand_over()

    async def stop(self) -> None:
        """Answers what is under way, makes everything durable, and says so on disk."""
        if self.ended.done():
            # What the broker knows of the metadata may be of the past: it must not change them any more.
            await self._end_tasks()
        await self._undo.aclose()


def _tell(reports: Iterable[Report]) -> None:
    """What recovery found, one line for each log that lost something."""
    for recovered in reports:
        if recovered.cut_bytes or recovered.cut_segments or recovered.damaged:
            log.warning("recovered %s", recovered)
