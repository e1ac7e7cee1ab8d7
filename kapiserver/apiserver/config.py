"""The settings of one server; the command line creates them from flags.

Only `cli.py` and `flags.py` know flags; nothing reads the environment. Fields have the names of
kube-apiserver's flags.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from kapiserver.apiserver.feature_gates import DEFAULT_GATES, FeatureGates
from kapiserver.storage.etcd.config import EtcdConfig, EtcdTransport

BODY_LIMIT = 3 * 1024 * 1024
"""The maximum size of a request body; kube-apiserver's MaxRequestBodyBytes."""

KUBELET_ADDRESS_TYPES = ("Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP")
"""The types of a node's addresses, in the order in which kube-apiserver prefers them."""


HTTPTOOLS, AIOHTTP = "httptools", "aiohttp"
FRONTS = (HTTPTOOLS, AIOHTTP)
"""The libraries that can parse requests: the fronts of `serving/exchange.py`."""


class Config(Struct, frozen=True, kw_only=True):
    """The settings of one server; the defaults suit a test.

    secure_port     None turns HTTPS off; 0 picks a free port
    insecure_port   None turns plain HTTP off; 0 picks a free port; always on the loopback
    cert_dir        None means a temporary directory that is deleted with the server
    authorization_mode  None means RBAC
    storage         `sqlite:PATH`, `sqlite::memory:` or `etcd:URL,...` (`storage/backends.py`)
    etcd_prefix     prefix of all keys, in every backend
    max_memory      bytes that a process may allocate; None means three quarters of the machine's
                    memory, shared by the workers; 0 means no limit
    workers         processes that share the ports; limits apply to each
    http            the library that parses requests, one of FRONTS
    emulated_version    the Kubernetes release to emulate: `1.34` or `kube=1.34`; "" for the newest
    runtime_config  API versions and resources to turn on or off: `api/beta=true,...`
    """

    bind_address: str = "127.0.0.1"
    secure_port: int | None = 0
    insecure_port: int | None = None
    cert_dir: Path | None = None
    tls_cert_file: Path | None = None
    tls_private_key_file: Path | None = None
    tls_sni_cert_key: tuple[str, ...] = ()
    tls_min_version: str = "VersionTLS12"
    tls_cipher_suites: tuple[str, ...] = ()
    client_ca_file: Path | None = None
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
    oidc_issuer_url: str = ""
    oidc_client_id: str = ""
    oidc_ca_file: Path | None = None
    oidc_username_claim: str = "sub"
    oidc_username_prefix: str = ""
    oidc_groups_claim: str = ""
    oidc_groups_prefix: str = ""
    oidc_required_claim: tuple[tuple[str, str], ...] = ()
    oidc_signing_algs: tuple[str, ...] = ("RS256",)
    authorization_mode: tuple[str, ...] | None = None
    authorization_config: Path | None = None
    authorization_policy_file: Path | None = None
    authorization_webhook_config_file: Path | None = None
    authorization_webhook_version: str = "v1beta1"
    authorization_webhook_cache_authorized_ttl: float = 300.0
    authorization_webhook_cache_unauthorized_ttl: float = 30.0
    kubeconfig_out: Path | None = None
    storage: str = "sqlite::memory:"
    unsafe_no_fsync: bool = False
    etcd_prefix: str = "/registry"
    etcd_transport: EtcdTransport = "grpc"
    etcd_cafile: Path | None = None
    etcd_certfile: Path | None = None
    etcd_keyfile: Path | None = None
    etcd_username: str = ""
    etcd_password_file: Path | None = None
    etcd_compaction_interval: float = 300.0
    event_ttl: int = 3600
    encryption_provider_config: Path | None = None
    encryption_provider_config_automatic_reload: bool = False
    feature_gates: FeatureGates = DEFAULT_GATES
    runtime_config: str = ""
    emulated_version: str = ""
    service_cluster_ip_range: str = "10.0.0.0/24"
    service_node_port_range: str = "30000-32767"
    kubelet_preferred_address_types: tuple[str, ...] = KUBELET_ADDRESS_TYPES
    kubelet_certificate_authority: Path | None = None
    kubelet_client_certificate: Path | None = None
    kubelet_client_key: Path | None = None
    service_account_issuer: tuple[str, ...] = ("https://kubernetes.default.svc.cluster.local",)
    service_account_key_file: tuple[Path, ...] = ()
    service_account_signing_key_file: Path | None = None
    service_account_jwks_uri: str = ""
    service_account_extend_token_expiration: bool = True
    service_account_max_token_expiration: float = 0.0
    api_audiences: tuple[str, ...] = ()
    enable_admission_plugins: tuple[str, ...] = ()
    disable_admission_plugins: tuple[str, ...] = ()
    default_not_ready_toleration_seconds: int = 300
    default_unreachable_toleration_seconds: int = 300
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
    admission_control_config_file: Path | None = None
    controllers: tuple[str, ...] = ("*",)
    max_requests_inflight: int = 400
    max_mutating_requests_inflight: int = 200
    max_memory: int | None = None
    workers: int = 1
    http: str = HTTPTOOLS
    request_timeout: float = 60.0
    min_request_timeout: int = 1800
    shutdown_timeout: float = 10.0
    body_limit: int = BODY_LIMIT
    verbosity: int = 0

    @property
    def key_root(self) -> str:
        """The prefix of all keys, without a slash at its end."""
        return f"/{self.etcd_prefix.strip('/')}".rstrip("/")

    @property
    def etcd(self) -> EtcdConfig:
        """The settings of the client of etcd."""
        return EtcdConfig(
            root=self.key_root,
            cafile=self.etcd_cafile,
            certfile=self.etcd_certfile,
            keyfile=self.etcd_keyfile,
            username=self.etcd_username,
            password_file=self.etcd_password_file,
            transport=self.etcd_transport,
        )
