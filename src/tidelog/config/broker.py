"""The parsed settings of one broker, and where each value comes from.

There are three layers, and the first that has a value wins: dynamic settings of this broker, dynamic settings of all brokers
(both in the metadata store), and settings given at the start.  `BrokerConfig.of` parses text; other code reads attributes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_network
from typing import Any

from tidelog.config.amqp import AMQP_PROTOCOLS, kafka_listeners
from tidelog.config.applicability import known_settings, settings_without_effect, without_controllers
from tidelog.config.connection_overrides import connection_overrides
from tidelog.config.cordoned_dirs import check_cordoned
from tidelog.config.group_bounds import check_groups
from tidelog.config.listener import Listener, parse_address, parse_listeners, parse_protocols
from tidelog.config.listener_security import (
    HTTP_SERVICE,
    PREFIX,
    ListenerSecurity,
    check_override,
    listener_security,
    override_setting,
    split_overrides,
)
from tidelog.config.metadata_address import EmbeddedAddress, EtcdAddress, SocketAddress, parse_metadata
from tidelog.config.oauth import OidcSettings, oidc_settings
from tidelog.config.otlp import check_otlp
from tidelog.config.process_count import process_count
from tidelog.config.setting import Setting, Value, find, read_table
from tidelog.config.tables.broker_groups import GROUPS
from tidelog.config.tables.broker_log import LOG
from tidelog.config.tables.broker_network import NETWORK
from tidelog.config.tables.broker_replication import REPLICATION
from tidelog.config.tables.broker_security import SECURITY
from tidelog.config.tables.broker_tidelog import OWN
from tidelog.config.topic import TopicConfig, check_key_name
from tidelog.config.topic_defaults import topic_defaults
from tidelog.errors import InvalidConfig
from tidelog.logs import parse_levels

BROKER_SETTINGS: dict[str, Setting] = read_table(LOG, NETWORK, REPLICATION, GROUPS, SECURITY, OWN)

HTTP_LISTENER = "http"  # the prefix listener.name.http. is for the HTTP port, too
_TICKETS = f"{PREFIX}{HTTP_LISTENER}.gssapi.sasl.jaas.config"
AUTHORIZERS = ("tidelog", "org.apache.kafka.metadata.authorizer.StandardAuthorizer")


_NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """One attribute for each built setting; defaults for topics are in `topic_defaults`."""

    add_partitions_to_txn_retry_backoff_max_ms: int = 100
    add_partitions_to_txn_retry_backoff_ms: int = 20
    advertised_listeners: tuple[Listener, ...] = ()
    allow_everyone_if_no_acl_found: bool = False
    authorizer_class_name: str = ""
    auto_create_topics_enable: bool = True
    auto_leader_rebalance_enable: bool = True
    broker_rack: str | None = None
    config_providers: tuple[str, ...] = ()
    connection_failed_authentication_delay_ms: int = 100
    connections_max_idle_ms: int = 600_000
    controlled_shutdown_enable: bool = True
    controller_listener_names: tuple[str, ...] = ()
    controller_quota_window_num: int = 11
    controller_quota_window_size_seconds: int = 1
    cordoned_log_dirs: tuple[str, ...] = ()
    default_replication_factor: int = 1
    delegation_token_expiry_check_interval_ms: int = 3_600_000
    delegation_token_expiry_time_ms: int = 86_400_000
    delegation_token_max_lifetime_ms: int = 604_800_000
    delegation_token_secret_key: str | None = None
    delete_topic_enable: bool = True
    encryption_cache_bytes: int = 16_777_216
    encryption_file_keys_dir: str | None = None
    encryption_refresh_ms: int = 10_000
    encryption_vault_ca_file: str | None = None
    encryption_vault_mount: str = "transit"
    encryption_vault_token_file: str | None = None
    encryption_vault_url: str | None = None
    fetch_max_bytes: int = 57_671_680
    follower_fetch_last_tiered_offset_enable: bool = False
    follower_replication_throttled_rate: int = (1 << 63) - 1
    group_initial_rebalance_delay_ms: int = 3000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = (1 << 31) - 1
    group_min_session_timeout_ms: int = 6000
    group_consumer_assignment_interval_ms: int = 1000
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    group_consumer_heartbeat_interval_ms: int = 5000
    group_consumer_max_assignment_interval_ms: int = 15_000
    group_consumer_max_heartbeat_interval_ms: int = 15_000
    group_consumer_max_session_timeout_ms: int = 60_000
    group_consumer_max_size: int = (1 << 31) - 1
    group_consumer_migration_policy: str = "bidirectional"
    group_consumer_min_assignment_interval_ms: int = 0
    group_consumer_min_heartbeat_interval_ms: int = 5000
    group_consumer_min_session_timeout_ms: int = 45_000
    group_consumer_session_timeout_ms: int = 45_000
    group_coordinator_rebalance_protocols: tuple[str, ...] = ("classic", "consumer", "streams")
    group_share_assignment_interval_ms: int = 1000
    group_share_assignors: tuple[str, ...] = ("simple",)
    group_share_delivery_count_limit: int = 5
    group_share_heartbeat_interval_ms: int = 5000
    group_share_max_assignment_interval_ms: int = 15_000
    group_share_max_delivery_count_limit: int = 10
    group_share_max_heartbeat_interval_ms: int = 15_000
    group_share_max_partition_max_record_locks: int = 4000
    group_share_max_record_lock_duration_ms: int = 60_000
    group_share_max_session_timeout_ms: int = 60_000
    group_share_max_share_sessions: int = 2000
    group_share_max_size: int = 200
    group_share_min_assignment_interval_ms: int = 0
    group_share_min_delivery_count_limit: int = 2
    group_share_min_heartbeat_interval_ms: int = 5000
    group_share_min_partition_max_record_locks: int = 100
    group_share_min_record_lock_duration_ms: int = 15_000
    group_share_min_session_timeout_ms: int = 45_000
    group_share_partition_max_record_locks: int = 2000
    group_share_record_lock_duration_ms: int = 30_000
    group_share_session_timeout_ms: int = 45_000
    group_streams_assignment_interval_ms: int = 1000
    group_streams_heartbeat_interval_ms: int = 5000
    group_streams_initial_rebalance_delay_ms: int = 3000
    group_streams_max_assignment_interval_ms: int = 15_000
    group_streams_max_heartbeat_interval_ms: int = 15_000
    group_streams_max_session_timeout_ms: int = 60_000
    group_streams_max_size: int = (1 << 31) - 1
    group_streams_max_standby_replicas: int = 2
    group_streams_min_assignment_interval_ms: int = 0
    group_streams_min_heartbeat_interval_ms: int = 5000
    group_streams_min_session_timeout_ms: int = 45_000
    group_streams_num_standby_replicas: int = 0
    group_streams_session_timeout_ms: int = 45_000
    inter_broker_listener_name: str | None = None
    leader_imbalance_check_interval_seconds: int = 300
    leader_replication_throttled_rate: int = (1 << 63) - 1
    listeners: tuple[Listener, ...] = (Listener("PLAINTEXT", "127.0.0.1", 9092),)
    listener_security_protocol_map: str = (
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"
    )
    log_cleaner_backoff_ms: int = 15_000
    log_cleaner_dedupe_buffer_size: int = 134_217_728
    log_cleaner_enable: bool = True
    log_cleaner_io_max_bytes_per_second: float = 1.7976931348623157e308
    log_cleaner_threads: int = 1
    log_dirs: tuple[str, ...] = ("data",)
    log_flush_offset_checkpoint_interval_ms: int = 60_000
    log_flush_start_offset_checkpoint_interval_ms: int = 60_000
    log_initial_task_delay_ms: int = 30_000
    log_retention_check_interval_ms: int = 300_000
    max_connection_creation_rate: int = (1 << 31) - 1
    max_connections: int = (1 << 31) - 1
    max_connections_per_ip: int = (1 << 31) - 1
    max_connections_per_ip_overrides: str = ""
    max_incremental_fetch_session_cache_slots: int = 1000
    max_request_partition_size_limit: int = 2000
    node_id: int = 1
    num_partitions: int = 1
    offset_metadata_max_bytes: int = 4096
    offsets_commit_timeout_ms: int = 5000
    offsets_topic_compression_codec: int = 0
    offsets_retention_check_interval_ms: int = 600_000
    offsets_retention_minutes: int = 10_080
    offsets_topic_num_partitions: int = 50
    offsets_topic_replication_factor: int = 3
    offsets_topic_segment_bytes: int = 104_857_600
    process_roles: tuple[str, ...] = ("broker", "controller")
    producer_id_expiration_ms: int = 86_400_000
    queued_max_request_bytes: int = -1
    quota_consumer_default: int = (1 << 63) - 1
    quota_producer_default: int = (1 << 63) - 1
    quota_window_num: int = 11
    quota_window_size_seconds: int = 1
    remote_fetch_max_wait_ms: int = 500
    remote_list_offsets_request_timeout_ms: int = 30_000
    remote_log_index_file_cache_total_size_bytes: int = 1 << 30
    remote_log_manager_copier_thread_pool_size: int = 10
    remote_log_manager_copy_max_bytes_per_second: int = (1 << 63) - 1
    remote_log_manager_expiration_thread_pool_size: int = 10
    remote_log_manager_fetch_max_bytes_per_second: int = (1 << 63) - 1
    remote_log_manager_task_interval_ms: int = 30_000
    remote_log_reader_max_pending_tasks: int = 100
    remote_log_reader_threads: int = 10
    remote_log_storage_system_enable: bool = False
    replica_alter_log_dirs_io_max_bytes_per_second: int = (1 << 63) - 1
    replica_fetch_backoff_ms: int = 1000
    replica_fetch_min_bytes: int = 1
    replica_fetch_max_bytes: int = 1_048_576
    replica_fetch_response_max_bytes: int = 10_485_760
    replica_fetch_wait_max_ms: int = 500
    replica_high_watermark_checkpoint_interval_ms: int = 5000
    replica_lag_time_max_ms: int = 30_000
    replica_selector_class: str | None = None
    replica_socket_timeout_ms: int = 30_000
    request_timeout_ms: int = 30_000
    sasl_mechanism_inter_broker_protocol: str = "GSSAPI"
    security_inter_broker_protocol: str = "PLAINTEXT"
    share_coordinator_snapshot_update_records_per_snapshot: int = 500
    share_coordinator_state_topic_compression_codec: int = 0
    share_coordinator_state_topic_min_isr: int = 2
    share_coordinator_state_topic_num_partitions: int = 50
    share_coordinator_state_topic_replication_factor: int = 3
    share_coordinator_state_topic_segment_bytes: int = 104_857_600
    share_coordinator_write_timeout_ms: int = 5000
    socket_receive_buffer_bytes: int = 102_400
    socket_request_max_bytes: int = 104_857_600
    socket_send_buffer_bytes: int = 102_400
    super_users: str = ""
    telemetry_max_bytes: int = 1_048_576
    tidelog_amqp_disk_free_bytes_min: int = 50_000_000
    tidelog_broker_lease_ms: int = 2000
    tidelog_connection_requests_max: int = 16
    tidelog_connection_stalled_ms: int = 60_000
    tidelog_group_heartbeat_hold_ms: int = 2500
    tidelog_http_advertise: tuple[str, int] | None = None
    tidelog_audit_enable: str = "auto"
    tidelog_audit_queue_max: int = 10_000
    tidelog_audit_topic: str = "_audit"
    tidelog_audit_topic_replication_factor: int = 3
    tidelog_audit_topic_retention_bytes: int = 1 << 30
    tidelog_audit_topic_retention_ms: int = 604_800_000
    tidelog_http_authentication: str = "auto"
    tidelog_http_body_bytes_max: int = 16_777_216
    tidelog_http_connections_max: int = 256
    tidelog_http_hosts: tuple[str, ...] = ()
    tidelog_http_trusted_proxies: tuple[str, ...] = ()
    tidelog_http_listen: tuple[str, int] = ("127.0.0.1", 8090)
    tidelog_http_metrics_token_file: str | None = None
    tidelog_http_oidc_client_id: str | None = None
    tidelog_http_oidc_client_secret: str | None = field(default=None, repr=False)
    tidelog_http_oidc_groups_claim_name: str | None = None
    tidelog_http_oidc_issuer: str | None = None
    tidelog_http_oidc_name: str = ""
    tidelog_http_oidc_redirect_url: str | None = None
    tidelog_http_oidc_scopes: tuple[str, ...] = ("openid",)
    tidelog_http_oidc_session_max_ms: int = 28_800_000
    tidelog_http_oidc_user_claim_name: str = "sub"
    tidelog_http_ssl: bool = False
    tidelog_log_dirs_forget_missing: bool = False
    tidelog_log_format: str = "text"
    tidelog_log_levels: tuple[str, ...] = ("info",)
    tidelog_login_connections_max: int = 1000
    tidelog_login_queued_bytes: int = 16_777_216
    tidelog_login_timeout_ms: int = 30_000
    tidelog_login_waiting_max: int = 200
    tidelog_machine: str | None = None
    tidelog_metadata: str = "sqlite:"
    tidelog_metadata_member: str | None = None
    tidelog_metadata_password: str | None = None
    tidelog_metadata_restored: bool = False
    tidelog_metadata_tls_ca: str | None = None
    tidelog_metadata_tls_cert: str | None = None
    tidelog_metadata_tls_key: str | None = None
    tidelog_metadata_user: str | None = None
    tidelog_metrics_clients_max: int = 1000
    tidelog_metrics_series_max: int = 100_000
    tidelog_open_files_max: int = 4096
    tidelog_remote_cache_bytes: int = 1 << 30
    tidelog_remote_read_ahead_bytes: int = 8_388_608
    tidelog_remote_storage_url: str | None = None
    tidelog_processes: str = "1"
    tidelog_processes_first: int = -1
    tidelog_request_bytes_max: int = 4_194_304
    tidelog_rest_consumer_instance_timeout_ms: int = 300_000
    tidelog_rest_consumer_request_bytes_max: int = 16_777_216
    tidelog_rest_consumer_request_timeout_ms: int = 1000
    tidelog_rest_consumers_max: int = 100
    tidelog_scrub_bytes_per_second: int = 10_485_760
    tidelog_scrub_period_ms: int = 604_800_000
    tidelog_telemetry_otlp_ca: str | None = None
    tidelog_telemetry_otlp_endpoint: str | None = None
    tidelog_telemetry_otlp_headers: str | None = None
    tidelog_telemetry_otlp_queue_bytes_max: int = 16_777_216
    tidelog_telemetry_otlp_timeout_ms: int = 10_000
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10_000
    transaction_max_timeout_ms: int = 900_000
    transaction_partition_verification_enable: bool = True
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000
    transaction_state_log_min_isr: int = 2
    transaction_state_log_num_partitions: int = 50
    transaction_state_log_replication_factor: int = 3
    transaction_state_log_segment_bytes: int = 104_857_600
    transaction_two_phase_commit_enable: bool = False
    transactional_id_expiration_ms: int = 604_800_000
    without_effect: tuple[tuple[bool, str], ...] = field(default=(), compare=False, repr=False)
    """What a start says of settings that do nothing: (whether it is a warning, the line)."""
    topic_defaults: TopicConfig = field(default_factory=TopicConfig)
    security: Mapping[str, ListenerSecurity] = field(default_factory=dict, repr=False, compare=False)
    """By the name of a listener."""
    http_security: ListenerSecurity = field(default_factory=ListenerSecurity, repr=False, compare=False)
    given: Mapping[str, str] = field(default_factory=lambda: _NOTHING, compare=False, repr=False)
    dynamic_all: Mapping[str, str] = field(default_factory=lambda: _NOTHING, compare=False, repr=False)
    dynamic_here: Mapping[str, str] = field(default_factory=lambda: _NOTHING, compare=False, repr=False)

    @staticmethod
    def of(
        given: Mapping[str, str],
        dynamic_all: Mapping[str, str] = _NOTHING,
        dynamic_here: Mapping[str, str] = _NOTHING,
    ) -> BrokerConfig:
        """Parses text, layer by layer; InvalidConfig for the first value that is impossible.  Settings that nobody knows are
        left out: `settings_without_effect` names them."""
        without_effect = tuple(settings_without_effect(given, BROKER_SETTINGS))
        given = without_controllers(known_settings(given, BROKER_SETTINGS))
        plain, _ = split_overrides(given)
        values = _one_node_id(_parsed(plain))
        if "log.dirs" not in values and "log.dir" in values:
            values["log.dirs"] = values["log.dir"]
        changes = _attributes(values)
        for name in ("listeners", "advertised_listeners"):
            if changes.get(name) is not None:
                changes[name] = parse_listeners(changes[name], name.replace("_", "."))
        for name in ("tidelog_http_listen", "tidelog_http_advertise"):
            if changes.get(name) is not None:
                changes[name] = parse_address(changes[name], name.replace("_", "."))
        start = BrokerConfig(**changes, topic_defaults=topic_defaults(values, TopicConfig()), given=given)
        start = replace(start, **_security(start), without_effect=without_effect)
        start._check()
        return start.with_dynamic(dynamic_all, dynamic_here)

    def with_dynamic(self, dynamic_all: Mapping[str, str], dynamic_here: Mapping[str, str]) -> BrokerConfig:
        """The settings with dynamic changes.  Call this method on the settings given at the start."""
        assert not self.dynamic_all and not self.dynamic_here
        if not dynamic_all and not dynamic_here:
            return self
        plain, _ = split_overrides({**dynamic_all, **dynamic_here})
        if "config.providers" in plain:
            raise InvalidConfig(
                "config.providers acts at the start of a broker: put it in server.properties, and restart the broker"
            )
        values = _parsed(plain)
        changed = replace(
            self,
            **_attributes(values),
            # The setting with the finest unit wins, in whichever layer it is, and only that one is dynamic.
            topic_defaults=topic_defaults(values, self.topic_defaults),
            dynamic_all=dynamic_all,
            dynamic_here=dynamic_here,
        )
        changed = replace(changed, **_security(changed))
        changed._check()
        return changed

    @property
    def inter_broker_listener(self) -> str:
        """The listener that other brokers use."""
        if self.inter_broker_listener_name is not None:
            return self.inter_broker_listener_name.upper()
        protocol = self.security_inter_broker_protocol
        fitting = [name for name, security in self.security.items() if security.protocol == protocol]
        return fitting[0] if fitting else kafka_listeners(self.listeners)[0].name

    @property
    def metadata_address(self) -> EtcdAddress | SocketAddress | EmbeddedAddress | None:
        """Where the cluster's metadata are; None: in a SQLite file, and this broker is the whole cluster."""
        return parse_metadata(self.tidelog_metadata, "tidelog.metadata")

    def _check(self) -> None:
        if not kafka_listeners(self.listeners):
            raise InvalidConfig(
                "listeners has none for Kafka: a broker needs an address for clients and other brokers"
            )
        if not self.log_dirs:
            raise InvalidConfig("log.dirs is empty: a broker needs a folder for its data")
        check_cordoned(self.cordoned_log_dirs, self.log_dirs)
        for listener in self.advertised_listeners:
            if listener.host in ("0.0.0.0", "::"):
                raise InvalidConfig(
                    f"advertised.listeners cannot be {listener}: clients cannot connect to {listener.host}"
                )
            if listener.name not in [bound.name for bound in self.listeners]:
                raise InvalidConfig(
                    f"advertised.listeners has {listener.name}, which listeners does not have"
                )
        self._check_etcd()
        self._check_access()
        check_key_name("encryption.key", self.topic_defaults.encryption_key)
        if self.encryption_vault_url is not None and self.encryption_vault_token_file is None:
            raise InvalidConfig(
                "encryption.vault.url needs encryption.vault.token.file: the file with a token for Vault"
            )
        if self.remote_log_storage_system_enable and self.tidelog_remote_storage_url is None:
            raise InvalidConfig(
                "remote.log.storage.system.enable needs tidelog.remote.storage.url: the URL of an object store"
            )
        parse_levels(self.tidelog_log_levels, "tidelog.log.levels")
        check_otlp(self.tidelog_telemetry_otlp_endpoint, self.tidelog_telemetry_otlp_headers)
        process_count(self.tidelog_processes, "tidelog.processes", 1)
        if self.default_replication_factor < 1:
            raise InvalidConfig("default.replication.factor must be at least 1")
        if self.log_cleaner_dedupe_buffer_size < 1 << 20:
            raise InvalidConfig(f"log.cleaner.dedupe.buffer.size must be at least {1 << 20}")
        check_groups(lambda name: getattr(self, name.replace(".", "_")))
        for name in ("socket.send.buffer.bytes", "socket.receive.buffer.bytes"):
            size = getattr(self, name.replace(".", "_"))
            if size < 1 and size != -1:
                raise InvalidConfig(f"{name} cannot be {size}: it must be -1 or at least 1")

    @property
    def authorizes(self) -> bool:
        """Whether ACLs are checked."""
        return bool(self.authorizer_class_name)

    @property
    def audits(self) -> bool:
        """Whether log-ins, denials and changes are recorded."""
        if self.tidelog_audit_enable == "auto":
            return self.authorizes or any(security.authenticates for security in self.security.values())
        return self.tidelog_audit_enable == "true"

    @property
    def http_logs_in(self) -> bool:
        """Whether HTTP requests need a login."""
        if self.tidelog_http_authentication == "auto":
            return self.authorizes
        return self.tidelog_http_authentication == "required"

    def connections_max_of(self, host: str) -> int:
        """How many connections one address may have."""
        overrides = connection_overrides(self.max_connections_per_ip_overrides)
        return overrides.get(host, self.max_connections_per_ip)

    @property
    def kerberos_doors(self) -> dict[str, ListenerSecurity]:
        """Listeners that take tickets, and the HTTP port if it does, by name."""
        doors = {
            name: security
            for name, security in self.security.items()
            if security.has_login and "GSSAPI" in security.mechanisms
        }
        return doors | {"HTTP": self.http_security} if self.http_negotiates else doors

    @property
    def http_negotiates(self) -> bool:
        return self.http_logs_in and self.http_security.negotiates

    @property
    def oidc(self) -> OidcSettings | None:
        """How people log in to the console through an OpenID Connect provider."""
        return oidc_settings(lambda name: getattr(self, name.replace(".", "_")))

    def _check_access(self) -> None:
        for name, given in (
            ("tidelog.http.oidc.issuer", self.oidc),
            ("tidelog.http.metrics.token.file", self.tidelog_http_metrics_token_file),
        ):
            if given is not None and not self.http_logs_in:
                raise InvalidConfig(
                    f"{name} is set, but HTTP requests need no login: set authorizer.class.name or "
                    "tidelog.http.authentication=required"
                )
        connection_overrides(self.max_connections_per_ip_overrides)
        for proxy in self.tidelog_http_trusted_proxies:
            try:
                ip_network(proxy)
            except ValueError:
                raise InvalidConfig(
                    f"tidelog.http.trusted.proxies has {proxy!r}, which is no address and no network as 10.0.0.0/8"
                ) from None
        if self.authorizer_class_name not in ("", *AUTHORIZERS):
            raise InvalidConfig(
                f"authorizer.class.name cannot be {self.authorizer_class_name!r}: it must be {' or '.join(AUTHORIZERS)}"
            )
        for principal in filter(None, map(str.strip, self.super_users.split(";"))):
            if ":" not in principal:
                raise InvalidConfig(f"super.users has {principal!r}, which is no principal as User:admin")
        if self.delegation_token_secret_key == "":
            raise InvalidConfig(
                "delegation.token.secret.key is empty: leave it out to have no delegation tokens"
            )

    def _check_etcd(self) -> None:
        address = self.metadata_address
        given = [
            name
            for name in ("password", "tls_ca", "tls_cert", "tls_key", "user")
            if getattr(self, f"tidelog_metadata_{name}") is not None
        ]
        if isinstance(address, EmbeddedAddress):
            login = [name for name in given if name in ("password", "user")]
            if login:
                raise InvalidConfig(
                    f"tidelog.metadata.{login[0]} is for etcd://: members of embedded:// trust certificates, "
                    "tidelog.metadata.tls.ca, .cert and .key"
                )
            if "tls_ca" in given and "tls_cert" not in given:
                raise InvalidConfig("tidelog.metadata.tls.ca needs .cert and .key: members are servers, too")
        elif self.tidelog_metadata_member is not None:
            raise InvalidConfig("tidelog.metadata.member is for tidelog.metadata=embedded://host,host,host")
        elif given and not isinstance(address, EtcdAddress):
            name = given[0].replace("_", ".")
            raise InvalidConfig(f"tidelog.metadata.{name} is for etcd: set tidelog.metadata=etcd://host:port")
        if "password" in given and "user" not in given:
            raise InvalidConfig("tidelog.metadata.password needs tidelog.metadata.user")
        if ("tls_cert" in given) != ("tls_key" in given):
            raise InvalidConfig("tidelog.metadata.tls.cert and tidelog.metadata.tls.key go together")
        if "tls_cert" in given and "tls_ca" not in given:
            raise InvalidConfig("tidelog.metadata.tls.cert needs tidelog.metadata.tls.ca")


def _security(config: BrokerConfig) -> dict[str, Any]:
    """The security settings of each listener and of the HTTP port; InvalidConfig for settings of an unknown listener."""
    texts = {**config.given, **config.dynamic_all, **config.dynamic_here}
    plain, overrides = split_overrides(texts)
    names = {listener.name.lower(): listener.name for listener in config.listeners}
    _, given = split_overrides(config.given)
    for listener, settings in overrides.items():
        if listener in names or listener == HTTP_LISTENER:
            for name, text in settings.items():
                check_override(listener, name, text, BROKER_SETTINGS)
        elif listener in given:
            raise InvalidConfig(f"{PREFIX}{listener}: listeners has no {listener.upper()}")
        # A dynamic setting of a listener that is not there any more must not keep the broker from starting.
    protocols = parse_protocols(config.listener_security_protocol_map, "listener.security.protocol.map")

    def value(name: str) -> Value:
        setting = BROKER_SETTINGS[name]
        return setting.parse(plain[name]) if name in plain else setting.default

    by_listener = {}
    for key, name in names.items():
        protocol = name if name in AMQP_PROTOCOLS else protocols.get(name)
        if protocol is None:
            raise InvalidConfig(
                f"listener.security.protocol.map has no {name}: add {name}:PLAINTEXT, or another protocol"
            )
        by_listener[name] = listener_security(name, protocol, value, overrides.get(key, {}), BROKER_SETTINGS)
    protocol = "SSL" if config.tidelog_http_ssl else "PLAINTEXT"
    of_http = listener_security("HTTP", protocol, value, overrides.get(HTTP_LISTENER, {}), BROKER_SETTINGS)
    if _TICKETS in texts and not config.http_logs_in:
        raise InvalidConfig(
            f"{_TICKETS} is set, but HTTP requests need no login: set authorizer.class.name or "
            "tidelog.http.authentication=required"
        )
    if _TICKETS in texts and not of_http.negotiates:
        raise InvalidConfig(
            f'{_TICKETS} needs keyTab="/etc/http.keytab" and principal="{HTTP_SERVICE}host@REALM"'
        )
    return {"security": by_listener, "http_security": of_http}


def _one_node_id(values: dict[str, Value]) -> dict[str, Value]:
    """`broker.id` is the older name of `node.id`."""
    if "broker.id" not in values:
        return values
    broker_id = values["broker.id"]
    if values.setdefault("node.id", broker_id) != broker_id:
        raise InvalidConfig(
            f"node.id is {values['node.id']} and broker.id {broker_id}: give one of them, or the same"
        )
    if not isinstance(broker_id, int) or broker_id < 0:
        raise InvalidConfig(f"broker.id cannot be {broker_id}: it must be at least 0")
    return values


def find_broker_setting(name: str) -> Setting:
    """The setting that `name` is of, or that `listener.name.LISTENER.` overrides; UnknownSetting has the nearest name."""
    if name.startswith(PREFIX):
        setting = override_setting(name.removeprefix(PREFIX).partition(".")[2], BROKER_SETTINGS)
        if setting is not None:
            return setting
    return find(BROKER_SETTINGS, name, "setting")


def _parsed(texts: Mapping[str, str]) -> dict[str, Value]:
    return {name: find(BROKER_SETTINGS, name, "setting").parse(text) for name, text in texts.items()}


def _attributes(values: Mapping[str, Value]) -> dict[str, Any]:
    """The values that are attributes of BrokerConfig, and not only defaults for topics."""
    named = {BROKER_SETTINGS[name].attribute: value for name, value in values.items()}
    return {name: value for name, value in named.items() if name in BrokerConfig.__dataclass_fields__}
