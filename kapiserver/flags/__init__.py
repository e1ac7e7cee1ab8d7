"""The flags of `kapiserver serve` and `kapiserver recode`: names, types, defaults and help texts.

Names are kube-apiserver's where it has the flag. Reads no flag; `server_config.py` does.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from kapiserver.api.releases import NEWEST_MINOR, OLDEST_MINOR
from kapiserver.apiserver.config import FRONTS
from kapiserver.apiserver.feature_gates import feature_gates_help
from kapiserver.controllers.registry import CONTROLLER_NAMES
from kapiserver.flags.admission import add_admission_plugin_flags
from kapiserver.flags.aggregation import add_aggregation_flags
from kapiserver.flags.audit import add_audit_flags, add_audit_webhook_flags
from kapiserver.flags.authentication import add_authentication_flags
from kapiserver.flags.authorization import add_authorization_flags
from kapiserver.flags.autoscaling import add_autoscaling_flags
from kapiserver.flags.backends import add_backend_flags
from kapiserver.flags.certificates import add_certificate_flags, add_signing_flags
from kapiserver.flags.clusters import add_cluster_flags
from kapiserver.flags.debugging import add_debugging_flags
from kapiserver.flags.kubelets import add_kubelet_flags
from kapiserver.flags.logs import add_logging_flags
from kapiserver.flags.nodes import add_node_flags
from kapiserver.flags.peers import add_peer_flags
from kapiserver.flags.rpc import add_rpc_flags
from kapiserver.flags.serving import add_address_flags, add_shutdown_flags
from kapiserver.flags.simulation import add_simulation_flags
from kapiserver.flags.storage import (
    add_encryption_flags,
    add_media_type_flag,
    add_storage_flags,
)
from kapiserver.flags.values import (
    DEFAULTS,
    boolean,
    count,
    names,
    port_or_off,
    seconds,
    size,
    worker_count,
)


def add_serve_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `kapiserver serve`."""
    _add_serving(parser.add_argument_group("serving"))
    add_certificate_flags(parser.add_argument_group("certificates"))
    _add_features(parser.add_argument_group("APIs and features"))
    add_kubelet_flags(parser.add_argument_group("kubelets"))
    add_aggregation_flags(parser.add_argument_group("API aggregation"))
    add_peer_flags(parser.add_argument_group("peers"))
    add_cluster_flags(parser.add_argument_group("logical clusters"))
    add_signing_flags(parser.add_argument_group("signing of certificates"))
    add_authentication_flags(parser.add_argument_group("authentication"))
    add_authorization_flags(parser.add_argument_group("authorization"))
    audit = parser.add_argument_group("audit")
    add_audit_flags(audit)
    add_audit_webhook_flags(audit)
    _add_admission(parser.add_argument_group("admission and controllers"))
    add_autoscaling_flags(parser.add_argument_group("horizontal pod autoscalers"))
    add_node_flags(parser.add_argument_group("controllers of nodes"))
    add_simulation_flags(parser.add_argument_group("simulation"))
    _add_storage(parser.add_argument_group("storage"))
    add_backend_flags(parser)
    _add_limits(parser.add_argument_group("limits"))
    add_rpc_flags(parser.add_argument_group("RPC"))
    add_debugging_flags(parser.add_argument_group("debugging"))
    add_logging_flags(parser)
    parser.set_defaults(flags=parser._actions)


def add_feature_gates_flag(group: argparse._ArgumentGroup) -> None:
    """Add the flag of feature gates."""
    group.add_argument(
        "--feature-gates", action="append", default=[], metavar="NAME=BOOL,...",
        help=f"Feature gates to turn on or off. May be repeated. Gates: {feature_gates_help()}.",
    )  # fmt: skip


def add_kube_apiserver_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the program kube-apiserver of `kapiserver envtest`."""
    add_serve_flags(parser)
    parser.add_argument(
        "--allow-privileged", type=boolean, nargs="?", const=True, metavar="BOOL",
        help="Has no effect: privileged containers are always allowed.",
    )  # fmt: skip


def add_recode_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `kapiserver recode`."""
    parser.add_argument(
        "--from", dest="from_", metavar="ENCODING",
        help="Encoding of the object on standard input: json, yaml, protobuf, cbor or a media "
        "type. By default it is recognized from the first bytes.",
    )  # fmt: skip
    parser.add_argument(
        "--to", required=True, metavar="ENCODING",
        help="Encoding to write to standard output: json, yaml, protobuf, cbor or a media type. "
        "Required, no default.",
    )  # fmt: skip


def _add_serving(group: argparse._ArgumentGroup) -> None:
    add_address_flags(group)
    group.add_argument(
        "--insecure-port", type=port_or_off, metavar="PORT",
        help="Port for plain HTTP on the loopback interface, from 1 to 65535; 0 turns it off. "
        "Every request is authorized as a cluster administrator, without authentication. "
        "Requests that a web page could send are refused: foreign Host and Origin headers, and "
        "a POST without a Content-Type. Off by default.",
    )  # fmt: skip
    group.add_argument(
        "--workers", type=worker_count, default=DEFAULTS.workers, metavar="N",
        help="Number of processes that share the port, from 1 to 256. More than one needs "
        "etcd or PostgreSQL. They divide --max-requests-inflight and "
        "--max-mutating-requests-inflight among them. Default: %(default)s.",
    )  # fmt: skip
    add_shutdown_flags(group)
    group.add_argument(
        "--http", choices=FRONTS, default=DEFAULTS.http,
        help="The library that parses requests: httptools, or the server of aiohttp, which takes "
        "more CPU. Clients see no difference but the header Server. Default: %(default)s.",
    )  # fmt: skip
    group.add_argument(
        "--kubeconfig-out", type=Path, metavar="FILE",
        help="Where to write a kubeconfig for a cluster administrator. "
        "Default: kubeconfig in --data-dir.",
    )  # fmt: skip
    group.add_argument(
        "--enable-ui", type=boolean, nargs="?", const=True, default=DEFAULTS.enable_ui,
        metavar="BOOL",
        help="Serve a page at /ui that shows objects, their history and the server. At start a "
        "link is printed that signs an administrator in, once and within an hour; others sign in "
        "with a bearer token. With several --workers there is no link. Default: false.",
    )  # fmt: skip
    group.add_argument(
        "--service-cluster-ip-range", default=DEFAULTS.service_cluster_ip_range, metavar="CIDR",
        help="Range from which Services get their cluster IPs; one IPv4 range, one IPv6 range or "
        "both, separated by a comma. The first address of the first range belongs to the Service "
        "kubernetes. Default: %(default)s.",
    )  # fmt: skip
    group.add_argument(
        "--service-node-port-range", default=DEFAULTS.service_node_port_range, metavar="FROM-TO",
        help="Ports, both ends included, from which Services of type NodePort and LoadBalancer "
        "get their node ports. Default: %(default)s.",
    )  # fmt: skip


def _add_features(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--runtime-config", action="append", default=[], metavar="KEY=BOOL,...",
        help="API versions and resources to turn on or off. Keys: GROUP/VERSION, "
        "GROUP/VERSION/RESOURCE, api/all, api/ga, api/beta, api/alpha. May be repeated. "
        "Default: stable versions are on, alpha and beta versions are off.",
    )  # fmt: skip
    add_feature_gates_flag(group)
    group.add_argument(
        "--emulated-version", action="append", default=[], metavar="VERSION",
        help="Kubernetes release to emulate, such as 1.34 or kube=1.34, from "
        f"1.{OLDEST_MINOR} to 1.{NEWEST_MINOR}: /version reports it, and the resources "
        f"and API versions are those of that release. Default: 1.{NEWEST_MINOR}.",
    )  # fmt: skip
    group.add_argument(
        "--min-compatibility-version", action="append", default=[], metavar="VERSION",
        help="Oldest Kubernetes release that must read what the server stores, such as 1.34 or "
        f"kube=1.34, from 1.{OLDEST_MINOR} to the emulated one: objects are stored in versions "
        "that it has. Default: the release before the emulated one.",
    )  # fmt: skip


def _add_admission(group: argparse._ArgumentGroup) -> None:
    add_admission_plugin_flags(group)
    for condition in ("not-ready", "unreachable"):
        group.add_argument(
            f"--default-{condition}-toleration-seconds", type=int, metavar="SECONDS",
            default=DEFAULTS.default_not_ready_toleration_seconds,
            help=f"How long pods without a toleration of node.kubernetes.io/{condition}:NoExecute "
            "tolerate it. Default: %(default)s.",
        )  # fmt: skip
    group.add_argument(
        "--controllers", type=names, default=DEFAULTS.controllers, metavar="NAME,...",
        help="Controllers to run: '*' for those on by default, NAME to add one, -NAME to leave "
        f"one out. Names: {', '.join(sorted(CONTROLLER_NAMES))}. "
        f"Default: {','.join(DEFAULTS.controllers)}.",
    )  # fmt: skip


def _add_storage(group: argparse._ArgumentGroup) -> None:
    add_storage_flags(group)
    add_media_type_flag(group)
    group.add_argument(
        "--event-ttl", type=seconds, default=3600.0, metavar="DURATION",
        help="How long Events are kept, such as 90m or 1h30m, in full seconds. Default: 1h.",
    )  # fmt: skip
    add_encryption_flags(group)


def _add_limits(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--enable-priority-and-fairness", type=boolean, nargs="?", const=True, metavar="BOOL",
        default=DEFAULTS.enable_priority_and_fairness,
        help="Let requests share the sum of the next two limits by priority level, as FlowSchemas "
        "and PriorityLevelConfigurations say, wait in fair queues, and get 429 if those are full. "
        "false: the next two flags limit requests alone. Default: true.",
    )  # fmt: skip
    group.add_argument(
        "--max-requests-inflight", type=count, default=DEFAULTS.max_requests_inflight, metavar="N",
        help="Without priority and fairness, the maximum number of reading requests (get and list) "
        "at a time; more get 429. Watches are not counted, system:masters is exempt, and 0 means "
        "no limit. Default: %(default)s.",
    )  # fmt: skip
    group.add_argument(
        "--max-mutating-requests-inflight", type=count, metavar="N",
        default=DEFAULTS.max_mutating_requests_inflight,
        help="The same for changing requests (create, update, patch, delete). "
        "Default: %(default)s.",
    )  # fmt: skip
    group.add_argument(
        "--max-memory", type=size, metavar="SIZE",
        help="Maximum memory that each process may allocate, such as 2Gi. Above it, requests get "
        "429, except deletions, and the slowest watches end. 0: no limit. Default: three quarters "
        "of the memory of the machine or its control group, shared by all --workers.",
    )  # fmt: skip
    group.add_argument(
        "--request-timeout", type=seconds, default=DEFAULTS.request_timeout, metavar="DURATION",
        help="Longest time for one request, such as 90s, before it gets 504; the timeout "
        "parameter of a request can only shorten it. Watches are exempt. Default: 1m.",
    )  # fmt: skip
    group.add_argument(
        "--min-request-timeout", type=count, metavar="SECONDS",
        default=DEFAULTS.min_request_timeout,
        help="Shortest time, in seconds, after which the server ends a watch that names no "
        "timeoutSeconds; each gets a random time from this to twice this. Default: %(default)s.",
    )  # fmt: skip
