"""The flags of audit."""

from __future__ import annotations

import argparse
from pathlib import Path

from kapiserver.flags.values import DEFAULTS, boolean, count, positive


def add_audit_flags(group: argparse._ArgumentGroup) -> None:
    """Add the flags of audit."""
    group.add_argument(
        "--audit-policy-file", type=Path, metavar="FILE",
        help="YAML or JSON file with a Policy of audit.k8s.io/v1: which requests are recorded at "
        "which level. Needs --audit-log-path. Default: nothing is recorded.",
    )  # fmt: skip
    group.add_argument(
        "--audit-log-path", default="", metavar="FILE",
        help="File to append audit events to; - is standard output. Needs --audit-policy-file. "
        "Default: no log.",
    )  # fmt: skip
    group.add_argument(
        "--audit-log-format", choices=("json", "legacy"), default=DEFAULTS.audit_log_format,
        help="json writes each event as one line of JSON, legacy as one line of text without "
        "bodies. Default: %(default)s.",
    )  # fmt: skip
    group.add_argument(
        "--audit-log-mode", choices=("batch", "blocking"), default=DEFAULTS.audit_log_mode,
        help="blocking writes an event before the request goes on; batch lets a thread write it, "
        "and drops events while the disk is too slow or full. Default: %(default)s.",
    )  # fmt: skip
    group.add_argument(
        "--audit-log-batch-buffer-size", type=positive, metavar="N",
        default=DEFAULTS.audit_log_batch_buffer_size,
        help="Audit events that may wait in batch mode; more are dropped and counted. "
        "Default: %(default)s.",
    )  # fmt: skip
    group.add_argument(
        "--audit-log-maxage", type=count, default=DEFAULTS.audit_log_maxage, metavar="DAYS",
        help="Days after which old audit log files are removed; 0 keeps them. "
        "Default: %(default)s.",
    )  # fmt: skip
    group.add_argument(
        "--audit-log-maxbackup", type=count, default=DEFAULTS.audit_log_maxbackup, metavar="N",
        help="Old audit log files to keep at most; 0 keeps all. Default: %(default)s.",
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
