"""The flags of audit."""

from __future__ import annotations

import argparse
from pathlib import Path

from kapiserver.flags.values import DEFAULTS, boolean, count, positive, rate, seconds

MODES = ("batch", "blocking", "blocking-strict")


def add_audit_flags(group: argparse._ArgumentGroup) -> None:
    """Add the flags of audit."""
    group.add_argument(
        "--audit-policy-file", type=Path, metavar="FILE",
        help="YAML or JSON file with a Policy of audit.k8s.io/v1: which requests are recorded at "
        "which level, in --audit-log-path and --audit-webhook-config-file. "
        "Default: nothing is recorded.",
    )  # fmt: skip
    group.add_argument(
        "--audit-log-path", default="", metavar="FILE",
        help="File to append audit events to; - is standard output. Without "
        "--audit-policy-file nothing is recorded. Default: no log.",
    )  # fmt: skip
    group.add_argument(
        "--audit-log-format", choices=("json", "legacy"), default=DEFAULTS.audit_log_format,
        help="json writes each event as one line of JSON, legacy as one line of text without "
        "bodies. Default: %(default)s.",
    )  # fmt: skip
    group.add_argument(
        "--audit-log-mode", choices=MODES, default=DEFAULTS.audit_log_mode,
        help="blocking makes a request wait until its events are written, also while nobody reads "
        "a pipe; batch does not, and drops events while the disk is too slow or full. With "
        "blocking-strict a request also fails if the event of its receipt cannot be written. "
        "Default: %(default)s.",
    )  # fmt: skip
    _add_batches(group, "log")
    group.add_argument(
        "--audit-log-maxage", type=count, default=DEFAULTS.audit_log_maxage, metavar="DAYS",
        help="Days after which old audit log files are removed; 0 keeps them. "
        "Default: %(default)s.",
    )  # fmt: skip
    group.add_argument(
        "--audit-log-maxbackup", type=count, default=DEFAULTS.audit_log_maxbackup, metavar="N",
        help="Maximum number of old audit log files to keep; 0 keeps all. Default: %(default)s.",
    )  # fmt: skip
    group.add_argument(
        "--audit-log-maxsize", type=count, default=DEFAULTS.audit_log_maxsize, metavar="MB",
        help="Size in megabytes at which a new audit log file begins; 0 means no limit. "
        "Default: %(default)s.",
    )  # fmt: skip
    group.add_argument(
        "--audit-log-compress", type=boolean, nargs="?", const=True, default=False, metavar="BOOL",
        help="Compress old audit log files with gzip. Default: false.",
    )  # fmt: skip
    _add_version_and_truncation(group, "log")


def add_audit_webhook_flags(group: argparse._ArgumentGroup) -> None:
    """Add the flags of the webhook of audit."""
    group.add_argument(
        "--audit-webhook-config-file", type=Path, metavar="FILE",
        help="kubeconfig file of the webhook to which audit events are posted. Without "
        "--audit-policy-file nothing is posted. Default: no webhook.",
    )  # fmt: skip
    group.add_argument(
        "--audit-webhook-mode", choices=MODES, default=DEFAULTS.audit_webhook_mode,
        help="batch sends events in batches, and requests do not wait; blocking sends the event of "
        "a request's receipt before the request goes on, and that of its completion before the "
        "response ends; with blocking-strict a request also fails if the event of its receipt "
        "cannot be sent. Default: %(default)s.",
    )  # fmt: skip
    _add_batches(group, "webhook")
    group.add_argument(
        "--audit-webhook-initial-backoff", type=seconds, metavar="DURATION",
        default=DEFAULTS.audit_webhook_initial_backoff,
        help="Time between the first two attempts to send a batch; it grows with each of five "
        "attempts. Default: 10s.",
    )  # fmt: skip
    _add_version_and_truncation(group, "webhook")


def _add_batches(group: argparse._ArgumentGroup, backend: str) -> None:
    prefix, field = f"--audit-{backend}-batch", f"audit_{backend}_batch"
    group.add_argument(
        f"{prefix}-buffer-size", type=positive, metavar="N",
        default=getattr(DEFAULTS, f"{field}_buffer_size"),
        help=f"Audit events that may wait for the {backend}; more are dropped and "
        "counted. Default: %(default)s.",
    )  # fmt: skip
    group.add_argument(
        f"{prefix}-max-size", type=positive, metavar="N",
        default=getattr(DEFAULTS, f"{field}_max_size"),
        help=f"Maximum number of audit events in a batch of the {backend}. "
        "Default: %(default)s.",
    )  # fmt: skip
    max_wait = getattr(DEFAULTS, f"{field}_max_wait")
    group.add_argument(
        f"{prefix}-max-wait", type=seconds, metavar="DURATION", default=max_wait,
        help=f"Longest time until a batch of the {backend} that is not full is written. "
        f"Default: {max_wait:g}s.",
    )  # fmt: skip
    is_enabled = getattr(DEFAULTS, f"{field}_throttle_enable")
    group.add_argument(
        f"{prefix}-throttle-enable", type=boolean, nargs="?", const=True, metavar="BOOL",
        default=is_enabled,
        help=f"Limit the rate of batches of the {backend}. Default: {str(is_enabled).lower()}.",
    )  # fmt: skip
    qps = getattr(DEFAULTS, f"{field}_throttle_qps")
    group.add_argument(
        f"{prefix}-throttle-qps", type=rate, metavar="N", default=qps,
        help=f"Batches of the {backend} a second on average. Default: {qps:g}.",
    )  # fmt: skip
    group.add_argument(
        f"{prefix}-throttle-burst", type=positive, metavar="N",
        default=getattr(DEFAULTS, f"{field}_throttle_burst"),
        help=f"Batches of the {backend} at once, if fewer were written before. "
        "Default: %(default)s.",
    )  # fmt: skip


def _add_version_and_truncation(group: argparse._ArgumentGroup, backend: str) -> None:
    prefix = f"--audit-{backend}"
    group.add_argument(
        f"{prefix}-version", choices=("audit.k8s.io/v1",), default="audit.k8s.io/v1",
        help=f"API version of the events of the {backend}. Default: %(default)s, the only one.",
    )  # fmt: skip
    group.add_argument(
        f"{prefix}-truncate-enabled", type=boolean, nargs="?", const=True, default=False,
        metavar="BOOL",
        help=f"Remove the bodies of events of the {backend} that are larger than the limit, and "
        "drop events that still are. Default: false.",
    )  # fmt: skip
    group.add_argument(
        f"{prefix}-truncate-max-event-size", type=positive, metavar="BYTES",
        default=DEFAULTS.audit_log_truncate_max_event_size,
        help=f"The largest event of the {backend}, if truncation is enabled. "
        "Default: %(default)s.",
    )  # fmt: skip
    group.add_argument(
        f"{prefix}-truncate-max-batch-size", type=positive, metavar="BYTES",
        default=DEFAULTS.audit_log_truncate_max_batch_size,
        help=f"The largest batch of the {backend}, if truncation is enabled; at least as large "
        "as the largest event. Default: %(default)s.",
    )  # fmt: skip


def check_audit_batches(options: argparse.Namespace) -> None:
    """Check what kube-apiserver checks of the batches of a backend. Raises ValueError."""
    for backend in ("log", "webhook"):
        prefix = f"audit_{backend}_batch_throttle"
        if getattr(options, f"audit_{backend}_mode") != "batch":
            continue
        if not getattr(options, f"{prefix}_enable"):
            continue
        for name in ("qps", "burst"):
            value = getattr(options, f"{prefix}_{name}")
            if value <= 0:
                text = "QPS" if name == "qps" else name
                raise ValueError(
                    f"invalid audit batch {backend} throttle {text} {value:g}, must be a positive "
                    "number"
                )
