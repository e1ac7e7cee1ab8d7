"""The settings of one server, in sections; the command line creates them from flags.

A setting has the name of its flag, with `_` for `-`, and is in one section, whose record tells what
its subject is. Flags are kube-apiserver's and kube-controller-manager's where these have the
setting. Only the command line and `flags/` know flags; nothing reads the environment.

To add a setting: a field in the record of its section, and a flag in `flags/`. A part of the server
that needs one section takes that section, not the Config.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from kapiserver.apiserver.cluster_settings import LogicalClusterSettings
from kapiserver.apiserver.feature_gates import DEFAULT_GATES, FeatureGates
from kapiserver.apiserver.proxy_settings import AggregationSettings, PeerSettings
from kapiserver.apiserver.shutdown import ShutdownSettings
from kapiserver.storage.backends import BackendSections

BODY_LIMIT = 3 * 1024 * 1024
"""The maximum size of a request body; kube-apiserver's MaxRequestBodyBytes."""

KUBELET_ADDRESS_TYPES = ("Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP")
"""The types of a node's addresses, in the order in which kube-apiserver prefers them."""


HTTPTOOLS, AIOHTTP = "httptools", "aiohttp"
FRONTS = (HTTPTOOLS, AIOHTTP)
"""The libraries that can parse requests: the fronts of `serving/exchange.py`."""


class ServingSettings(Struct, frozen=True, kw_only=True):
    """Addresses and ports, the processes that share them, and what a start writes.

    bind_address    IP address of the secure port
    secure_port     None turns HTTPS off; 0 picks a free port
    insecure_port   None turns plain HTTP off; 0 picks a free port; always on the loopback
    workers         processes that share the ports, and divide the limits of requests in flight
    permit_port_sharing     whether other servers may listen on the same ports
    http            the library that parses requests, one of FRONTS
    disable_http2_serving   HTTPS speaks HTTP/1.1 only, as it does with aiohttp in any case
    http2_max_streams_per_connection    requests that a client may have open on one connection;
                    0 means 100
    goaway_chance   the part of the requests of HTTP/2 after which the client is sent to another
                    connection
    kubeconfig_out  file of an administrator's kubeconfig; None means a file in `cert_dir`
    enable_ui       serve the page at /ui
    verbosity       1 logs each request, 2 debug messages too
    vmodule         another verbosity for each pattern of modules
    logging_format  `text` or `json`
    """

    bind_address: str = "127.0.0.1"
    secure_port: int | None = 0
    insecure_port: int | None = None
    workers: int = 1
    permit_port_sharing: bool = False
    http: str = HTTPTOOLS
    disable_http2_serving: bool = True
    http2_max_streams_per_connection: int = 0
    goaway_chance: float = 0.0
    kubeconfig_out: Path | None = None
    enable_ui: bool = False
    verbosity: int = 0
    vmodule: tuple[tuple[str, int], ...] = ()
    logging_format: str = "text"


class CertificateSettings(Struct, frozen=True, kw_only=True):
    """The certificates with which the server serves HTTPS, and what it negotiates.

    cert_dir                the server's own CA, the certificates that it signs and the key of its
                            service account tokens; None means a temporary directory that is
                            deleted with the server
    tls_cert_file           certificate in place of an own one, with `tls_private_key_file`
    tls_san                 more names and addresses of the certificate in cert_dir
    tls_sni_cert_key        certificates for host names, each `CERT,KEY[:NAME,...]`
    tls_min_version         lowest version, by Go's name
    tls_cipher_suites       suites up to TLS 1.2, by Go's names; () means the default ones
    """

    cert_dir: Path | None = None
    tls_cert_file: Path | None = None
    tls_private_key_file: Path | None = None
    tls_san: tuple[str, ...] = ()
    tls_sni_cert_key: tuple[str, ...] = ()
    tls_min_version: str = "VersionTLS12"
    tls_cipher_suites: tuple[str, ...] = ()


class FeatureSettings(Struct, frozen=True, kw_only=True):
    """The APIs and features that are on.

    feature_gates       names of the gates that are on
    runtime_config      API versions and resources to turn on or off: `api/beta=true,...`
    emulated_version    the Kubernetes release to emulate: `1.34` or `kube=1.34`; "" for the newest
    min_compatibility_version   the oldest release that must read what is stored; "" for the one
                        before that
    """

    feature_gates: FeatureGates = DEFAULT_GATES
    runtime_config: str = ""
    emulated_version: str = ""
    min_compatibility_version: str = ""


class ServiceSettings(Struct, frozen=True, kw_only=True):
    """What Services get from the server.

    service_cluster_ip_range    one network, or one of each IP family with a comma between them
    service_node_port_range     first and last node port
    """

    service_cluster_ip_range: str = "10.0.0.0/24"
    service_node_port_range: str = "30000-32767"


class KubeletSettings(Struct, frozen=True, kw_only=True):
    """How the server connects to kubelets, for logs, exec, attach and port-forward.

    kubelet_preferred_address_types     types of a node's addresses, the first one preferred
    kubelet_certificate_authority       CA of kubelets; None accepts any certificate
    kubelet_client_certificate          certificate to show to kubelets, with `kubelet_client_key`
    kubelet_port                        port of kubelets whose nodes report none
    kubelet_timeout                     seconds in which a kubelet accepts a connection
    """

    kubelet_preferred_address_types: tuple[str, ...] = KUBELET_ADDRESS_TYPES
    kubelet_certificate_authority: Path | None = None
    kubelet_client_certificate: Path | None = None
    kubelet_client_key: Path | None = None
    kubelet_port: int = 10250
    kubelet_timeout: float = 5.0


class AuthenticationSettings(Struct, frozen=True, kw_only=True):
    """How requests show who their user is.

    client_ca_file                  CAs of client certificates, besides the server's own one
    requestheader_client_ca_file    CAs of front proxies, which name the user in headers
    requestheader_allowed_names     common names of front proxies; () means any
    requestheader_*_headers         headers with the user's name, uid and groups
    token_auth_file                 CSV file of static bearer tokens
    anonymous_auth                  accept requests without credentials
    enable_bootstrap_token_auth     accept the tokens of Secrets with which nodes join
    authentication_token_webhook_*  kubeconfig of a webhook that gets TokenReviews, how long its
                                    verdicts are used (seconds), and the version of the reviews
    authentication_config           file with an AuthenticationConfiguration: issuers of JWTs
    api_audiences                   audiences of tokens; () means the issuers of service accounts
    """

    client_ca_file: Path | None = None
    requestheader_client_ca_file: Path | None = None
    requestheader_allowed_names: tuple[str, ...] = ()
    requestheader_username_headers: tuple[str, ...] = ()
    requestheader_uid_headers: tuple[str, ...] = ()
    requestheader_group_headers: tuple[str, ...] = ()
    requestheader_extra_headers_prefix: tuple[str, ...] = ()
    token_auth_file: Path | None = None
    anonymous_auth: bool = True
    enable_bootstrap_token_auth: bool = False
    authentication_token_webhook_config_file: Path | None = None
    authentication_token_webhook_cache_ttl: float = 120.0
    authentication_token_webhook_version: str = "v1beta1"
    authentication_config: Path | None = None
    api_audiences: tuple[str, ...] = ()


class OIDCSettings(Struct, frozen=True, kw_only=True):
    """One issuer of OpenID Connect tokens; `authentication_config` describes several.

    oidc_issuer_url         URL of the issuer; "" for none
    oidc_client_id          audience of the tokens
    oidc_ca_file            CAs of the issuer; None for the system's CAs
    oidc_username_claim     claim with the user's name, which gets `oidc_username_prefix`
    oidc_groups_claim       claim with the groups, which get `oidc_groups_prefix`
    oidc_required_claim     claims and the values that they must have
    oidc_signing_algs       algorithms of signatures
    """

    oidc_issuer_url: str = ""
    oidc_client_id: str = ""
    oidc_ca_file: Path | None = None
    oidc_username_claim: str = "sub"
    oidc_username_prefix: str = ""
    oidc_groups_claim: str = ""
    oidc_groups_prefix: str = ""
    oidc_required_claim: tuple[tuple[str, str], ...] = ()
    oidc_signing_algs: tuple[str, ...] = ("RS256",)


class ServiceAccountSettings(Struct, frozen=True, kw_only=True):
    """The tokens of service accounts.

    service_account_issuer                      issuers; the first one signs, all are accepted
    service_account_key_file                    keys that verify tokens
    service_account_signing_key_file            key that signs; None means a key in `cert_dir`
    service_account_jwks_uri                    where the discovery document says the keys are;
                                                "" means this server
    service_account_extend_token_expiration     let the tokens of pods live a year
    service_account_max_token_expiration        longest life in seconds; 0 means no maximum
    """

    service_account_issuer: tuple[str, ...] = ("https://kubernetes.default.svc.cluster.local",)
    service_account_key_file: tuple[Path, ...] = ()
    service_account_signing_key_file: Path | None = None
    service_account_jwks_uri: str = ""
    service_account_extend_token_expiration: bool = True
    service_account_max_token_expiration: float = 0.0


class AuthorizationSettings(Struct, frozen=True, kw_only=True):
    """Who decides what users may do.

    authorization_mode          names of authorizers, in order; None means RBAC
    authorization_config        file with an AuthorizationConfiguration, in place of the others
    authorization_policy_file   policy of the mode ABAC
    authorization_webhook_*     kubeconfig of the mode Webhook, the version of its reviews, and how
                                long its verdicts are used (seconds)
    """

    authorization_mode: tuple[str, ...] | None = None
    authorization_config: Path | None = None
    authorization_policy_file: Path | None = None
    authorization_webhook_config_file: Path | None = None
    authorization_webhook_version: str = "v1beta1"
    authorization_webhook_cache_authorized_ttl: float = 300.0
    authorization_webhook_cache_unauthorized_ttl: float = 30.0


class AuditSettings(Struct, frozen=True, kw_only=True):
    """The record of requests. Its events go to a log file, to a webhook, or to both.

    audit_policy_file               which requests, and how much of each
    audit_log_path                  "" turns the log off, "-" is standard output
    audit_log_format                `json` or `legacy`
    audit_*_mode                    `batch`, `blocking` or `blocking-strict`
    audit_*_batch_*                 events that wait at most, events of a batch, seconds until an
                                    incomplete batch is written, batches a second
    audit_log_max*                  days and number of old files; megabytes until a new file
    audit_*_truncate_*              bytes above which events are shortened and batches divided
    audit_webhook_config_file       kubeconfig of the webhook
    audit_webhook_initial_backoff   seconds before the first retry
    """

    audit_policy_file: Path | None = None
    audit_log_path: str = ""
    audit_log_format: str = "json"
    audit_log_mode: str = "blocking"
    audit_log_batch_buffer_size: int = 10000
    audit_log_batch_max_size: int = 1
    audit_log_batch_max_wait: float = 0.0
    audit_log_batch_throttle_enable: bool = False
    audit_log_batch_throttle_qps: float = 0.0
    audit_log_batch_throttle_burst: int = 0
    audit_log_maxage: int = 0
    audit_log_maxbackup: int = 0
    audit_log_maxsize: int = 100
    audit_log_compress: bool = False
    audit_log_truncate_enabled: bool = False
    audit_log_truncate_max_batch_size: int = 10 << 20
    audit_log_truncate_max_event_size: int = 100 << 10
    audit_webhook_config_file: Path | None = None
    audit_webhook_mode: str = "batch"
    audit_webhook_batch_buffer_size: int = 10000
    audit_webhook_batch_max_size: int = 400
    audit_webhook_batch_max_wait: float = 30.0
    audit_webhook_batch_throttle_enable: bool = True
    audit_webhook_batch_throttle_qps: float = 10.0
    audit_webhook_batch_throttle_burst: int = 15
    audit_webhook_initial_backoff: float = 10.0
    audit_webhook_truncate_enabled: bool = False
    audit_webhook_truncate_max_batch_size: int = 10 << 20
    audit_webhook_truncate_max_event_size: int = 100 << 10


class AdmissionSettings(Struct, frozen=True, kw_only=True):
    """The admission plugins that run, and their settings.

    enable_admission_plugins            plugins besides the default ones
    disable_admission_plugins           default plugins that do not run
    admission_control_config_file       file with an AdmissionConfiguration
    default_*_toleration_seconds        seconds that pods tolerate a node's condition
    """

    enable_admission_plugins: tuple[str, ...] = ()
    disable_admission_plugins: tuple[str, ...] = ()
    admission_control_config_file: Path | None = None
    default_not_ready_toleration_seconds: int = 300
    default_unreachable_toleration_seconds: int = 300


class ControllerManagerSettings(Struct, frozen=True, kw_only=True):
    """The controllers, and the keys with which they sign certificates.

    controllers                 `*` for those on by default, NAME to add one, -NAME to leave one out
    cluster_signing_*_file      certificates and keys of signers: of all, or of the named one;
                                None means the server's own CA
    cluster_signing_duration    longest life of signed certificates, in seconds
    terminated_pod_gc_threshold ended pods above which the oldest are deleted; 0: none is deleted
    horizontal_pod_autoscaler_* how autoscalers work: see the flags; times in seconds
    """

    controllers: tuple[str, ...] = ("*",)
    cluster_signing_cert_file: Path | None = None
    cluster_signing_key_file: Path | None = None
    cluster_signing_kubelet_serving_cert_file: Path | None = None
    cluster_signing_kubelet_serving_key_file: Path | None = None
    cluster_signing_kubelet_client_cert_file: Path | None = None
    cluster_signing_kubelet_client_key_file: Path | None = None
    cluster_signing_kube_apiserver_client_cert_file: Path | None = None
    cluster_signing_kube_apiserver_client_key_file: Path | None = None
    cluster_signing_legacy_unknown_cert_file: Path | None = None
    cluster_signing_legacy_unknown_key_file: Path | None = None
    cluster_signing_duration: float = 365 * 24 * 3600.0
    terminated_pod_gc_threshold: int = 12_500
    horizontal_pod_autoscaler_sync_period: float = 15.0
    horizontal_pod_autoscaler_downscale_stabilization: float = 300.0
    horizontal_pod_autoscaler_tolerance: float = 0.1
    horizontal_pod_autoscaler_cpu_initialization_period: float = 300.0
    horizontal_pod_autoscaler_initial_readiness_delay: float = 30.0


class NodeLifecycleSettings(Struct, frozen=True, kw_only=True):
    """When the controller node-lifecycle-controller gives up nodes. Times are in seconds.

    node_monitor_grace_period      how long a node may be silent before it counts as unhealthy
    node_startup_grace_period      how long a new node may be silent
    node_monitor_period            how much longer a node may be silent if the controller itself was
                                   late to look
    node_eviction_rate             nodes a second whose pods are evicted in a healthy zone
    secondary_node_eviction_rate   the same in a large unhealthy zone
    large_cluster_size_threshold   nodes above which a zone is large
    unhealthy_zone_threshold       fraction of unhealthy nodes that makes a zone unhealthy
    """

    node_monitor_grace_period: float = 50.0
    node_startup_grace_period: float = 60.0
    node_monitor_period: float = 5.0
    node_eviction_rate: float = 0.1
    secondary_node_eviction_rate: float = 0.01
    large_cluster_size_threshold: int = 50
    unhealthy_zone_threshold: float = 0.55


class SimulationSettings(Struct, frozen=True, kw_only=True):
    """A cluster that moves without kubelets and containers.

    simulate             run workload controllers, a scheduler, and the kubelets of simulated nodes
    simulate_nodes       nodes to make at the start; None means one, or those of the file alone
    simulate_nodes_from  file with Node objects to make at the start
    simulate_host_access obey objects of kwok that name files, programs and addresses of this
                         machine
    """

    simulate: bool = False
    simulate_nodes: int | None = None
    simulate_nodes_from: Path | None = None
    simulate_host_access: bool = False


class StoreSettings(Struct, frozen=True, kw_only=True):
    """Where objects are stored, in every backend. `BackendSections` has what one backend needs.

    storage                     `sqlite:PATH`, `sqlite::memory:`, `etcd:URL,...` or `postgresql://...`
    etcd_prefix                 prefix of all keys
    etcd_compaction_interval    seconds that old revisions stay readable at least; 0 keeps them
    event_ttl                   seconds that Events are kept
    encryption_provider_config  file with an EncryptionConfiguration, which
                                `encryption_provider_config_automatic_reload` reads when it changes
    """

    storage: str = "sqlite::memory:"
    etcd_prefix: str = "/registry"
    etcd_compaction_interval: float = 300.0
    event_ttl: int = 3600
    encryption_provider_config: Path | None = None
    encryption_provider_config_automatic_reload: bool = False

    @property
    def key_root(self) -> str:
        """The prefix of all keys, without a slash at its end."""
        return f"/{self.etcd_prefix.strip('/')}".rstrip("/")

    @property
    def clusters_root(self) -> str:
        """The prefix of the keys of logical clusters: not below `key_root`, so that no informer of
        the management cluster reads them, unless that is the root of all keys."""
        return f"{self.key_root or '/'}-clusters"


class LimitSettings(Struct, frozen=True, kw_only=True):
    """What requests may use. Workers divide the two limits of requests in flight.

    enable_priority_and_fairness    whether priority levels share the sum of the next two; it must
                                    not be 0 then
    max_requests_inflight           reading requests at a time; 0 means no limit
    max_mutating_requests_inflight  changing requests at a time; 0 means no limit
    max_memory                      bytes that a process may allocate; None means three quarters of
                                    the machine's memory, shared by the workers; 0 means no limit
    request_timeout                 seconds of a request
    min_request_timeout             shortest seconds of a watch that names no time
    body_limit                      bytes of a request's body
    """

    enable_priority_and_fairness: bool = True
    max_requests_inflight: int = 400
    max_mutating_requests_inflight: int = 200
    max_memory: int | None = None
    request_timeout: float = 60.0
    min_request_timeout: int = 1800
    body_limit: int = BODY_LIMIT


class DebuggingSettings(Struct, frozen=True, kw_only=True):
    """What administrators may look at.

    profiling   serve profiles at /debug/pprof/
    tracing_config_file     file with a TracingConfiguration; None: requests are not traced
    flags       the flags of the command line and their values, for /flagz; () for a server that a
                program starts
    """

    profiling: bool = True
    tracing_config_file: Path | None = None
    flags: tuple[tuple[str, str], ...] = ()


class Config(BackendSections, frozen=True, kw_only=True):
    """The settings of one server, in sections; the defaults suit a test.

    `Config.of(storage="sqlite:store.db", secure_port=6443)` makes one from settings by their names,
    whatever their sections. The sections of backends are declared in `storage/backends.py`.
    """

    serving: ServingSettings = ServingSettings()
    certificates: CertificateSettings = CertificateSettings()
    features: FeatureSettings = FeatureSettings()
    services: ServiceSettings = ServiceSettings()
    kubelets: KubeletSettings = KubeletSettings()
    aggregation: AggregationSettings = AggregationSettings()
    peers: PeerSettings = PeerSettings()
    authentication: AuthenticationSettings = AuthenticationSettings()
    oidc: OIDCSettings = OIDCSettings()
    service_accounts: ServiceAccountSettings = ServiceAccountSettings()
    authorization: AuthorizationSettings = AuthorizationSettings()
    audit: AuditSettings = AuditSettings()
    admission: AdmissionSettings = AdmissionSettings()
    controller_manager: ControllerManagerSettings = ControllerManagerSettings()
    node_lifecycle: NodeLifecycleSettings = NodeLifecycleSettings()
    simulation: SimulationSettings = SimulationSettings()
    store: StoreSettings = StoreSettings()
    limits: LimitSettings = LimitSettings()
    shutdown: ShutdownSettings = ShutdownSettings()
    debugging: DebuggingSettings = DebuggingSettings()
    logical_clusters: LogicalClusterSettings = LogicalClusterSettings()

    @classmethod
    def of(cls, **settings: Any) -> Config:
        """Return a Config with these settings and the defaults of the others. Raises TypeError for
        an unknown setting."""
        return cls().replace(**settings)

    def replace(self, **settings: Any) -> Config:
        """Return a Config that differs in these settings. Raises TypeError for an unknown one."""
        changes: dict[str, dict[str, Any]] = {}
        for name, value in settings.items():
            section = SECTIONS.get(name)
            if section is None:
                raise TypeError(f"Config has no setting {name}")
            changes.setdefault(section, {})[name] = value
        sections = {name: replace(getattr(self, name), **new) for name, new in changes.items()}
        return replace(self, **sections)

    def settings(self) -> dict[str, Any]:
        """Return the values of all settings by their names."""
        return {name: getattr(getattr(self, section), name) for name, section in SECTIONS.items()}


_SECTION_TYPES: dict[str, type[Struct]] = {
    section: type(getattr(Config(), section)) for section in Config.__struct_fields__
}
SECTIONS = {
    setting: section
    for section, record in _SECTION_TYPES.items()
    for setting in record.__struct_fields__
}
"""The section of each setting."""
ANNOTATIONS = {
    setting: annotation
    for record in _SECTION_TYPES.values()
    for setting, annotation in record.__annotations__.items()
}
"""The annotation of each setting, as text."""
