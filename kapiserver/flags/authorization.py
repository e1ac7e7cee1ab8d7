"""The flags of authorization."""

from __future__ import annotations

import argparse
from pathlib import Path

from kapiserver.apiserver.authorization.settings import DEFAULT_MODES, MODES
from kapiserver.flags.values import DEFAULTS, names, seconds


def add_authorization_flags(group: argparse._ArgumentGroup) -> None:
    """Add the flags of modes, their files and the webhook."""
    group.add_argument(
        "--authorization-mode", type=names, metavar="MODE,...",
        help="Authorizers to ask, in this order, until one allows or denies a request; if none "
        "does, it is forbidden. The group system:masters may do everything in each mode. "
        f"Modes: {', '.join(MODES)}. RBAC asks roles and role bindings; AlwaysAllow lets anonymous "
        f"users read health and version only. Default: {','.join(DEFAULT_MODES)}.",
    )  # fmt: skip
    group.add_argument(
        "--authorization-config", type=Path, metavar="FILE",
        help="File with an AuthorizationConfiguration: the authorizers in order, with several "
        "webhooks and their match conditions. Read again when it changes. Excludes "
        "--authorization-mode and --authorization-webhook-config-file. Default: no file.",
    )  # fmt: skip
    group.add_argument(
        "--authorization-policy-file", type=Path, metavar="FILE",
        help="File of the mode ABAC, which needs it: one Policy in JSON a line. Default: no file.",
    )  # fmt: skip
    group.add_argument(
        "--authorization-webhook-config-file", type=Path, metavar="FILE",
        help="kubeconfig of the webhook of the mode Webhook, which needs it: it gets a "
        "SubjectAccessReview for each request. Default: no webhook.",
    )  # fmt: skip
    group.add_argument(
        "--authorization-webhook-cache-authorized-ttl", type=seconds, metavar="DURATION",
        default=DEFAULTS.authorization_webhook_cache_authorized_ttl,
        help="How long a decision of the webhook that allows is used. Default: 5m.",
    )  # fmt: skip
    group.add_argument(
        "--authorization-webhook-cache-unauthorized-ttl", type=seconds, metavar="DURATION",
        default=DEFAULTS.authorization_webhook_cache_unauthorized_ttl,
        help="How long a decision of the webhook that does not allow is used. Default: 30s.",
    )  # fmt: skip
    group.add_argument(
        "--authorization-webhook-version", choices=("v1", "v1beta1"),
        default=DEFAULTS.authorization_webhook_version,
        help="Version of the SubjectAccessReviews that the webhook gets. Default: %(default)s.",
    )  # fmt: skip
