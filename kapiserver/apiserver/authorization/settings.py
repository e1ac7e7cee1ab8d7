"""The AuthorizationConfiguration of a server: the file of `--authorization-config`, or the one that
the other flags of authorization stand for.

Mirrors pkg/kubeapiserver/options/authorization.go of kube-apiserver.
"""

from __future__ import annotations

from pathlib import Path

from kapiserver.api.types import Tree
from kapiserver.apiserver.config import AuthorizationSettings

ABAC, NODE, RBAC, WEBHOOK = "ABAC", "Node", "RBAC", "Webhook"
DEFAULT_MODES = (RBAC,)
MODES = ("ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook")


PURPOSE = "authorization configuration"


def configuration_file(settings: AuthorizationSettings) -> Path | None:
    """Return the file of the configuration, None if flags stand for it. Raises ValueError for flags
    that contradict the file."""
    file = settings.authorization_config
    flags = (settings.authorization_mode, settings.authorization_webhook_config_file)
    if file is not None and flags != (None, None):
        raise ValueError(
            "--authorization-config can not be specified when --authorization-mode or "
            "--authorization-webhook-* flags are defined"
        )
    return file


def settings_of_file(file: Path, data: bytes) -> Tree:
    """Return the configuration in the content of a file: its `authorizers`, each with a type.
    Raises BadConfiguration."""
    from kapiserver.apiserver.authorization.configuration import (  # loads a YAML parser
        decode_authorization_configuration,
    )

    return decode_authorization_configuration(data, file, PURPOSE, frozenset(MODES))


def settings_of_flags(settings: AuthorizationSettings) -> Tree:
    """Return the configuration that flags stand for. Raises ValueError for flags that contradict
    each other."""
    modes = DEFAULT_MODES if settings.authorization_mode is None else settings.authorization_mode
    if not modes:
        raise ValueError("at least one authorization-mode must be passed")
    _check_modes(settings, modes)
    return {"authorizers": [_authorizer(settings, mode) for mode in modes]}


def _check_modes(settings: AuthorizationSettings, modes: tuple[str, ...]) -> None:
    for mode in modes:
        if mode not in MODES:
            raise ValueError(f'authorization-mode "{mode}" is not a valid mode')
        if modes.count(mode) > 1:
            raise ValueError(f'authorization-mode "{mode}" is specified more than once')
    for mode, file, flag in (
        (ABAC, settings.authorization_policy_file, "--authorization-policy-file"),
        (
            WEBHOOK,
            settings.authorization_webhook_config_file,
            "--authorization-webhook-config-file",
        ),
    ):
        if mode in modes and file is None:
            file_kind = "policy" if mode == ABAC else "config"
            raise ValueError(
                f"authorization-mode {mode}'s authorization {file_kind} file not passed"
            )
        if mode not in modes and file is not None:
            raise ValueError(f"cannot specify {flag} without mode {mode}")


def _authorizer(settings: AuthorizationSettings, mode: str) -> Tree:
    if mode != WEBHOOK:
        return {"type": mode, "name": mode.lower()}
    webhook = {
        "authorizedTTL": f"{settings.authorization_webhook_cache_authorized_ttl:f}s",
        "unauthorizedTTL": f"{settings.authorization_webhook_cache_unauthorized_ttl:f}s",
        "timeout": "30s",
        "subjectAccessReviewVersion": settings.authorization_webhook_version,
        "failurePolicy": "NoOpinion",
        "connectionInfo": {
            "type": "KubeConfigFile",
            "kubeConfigFile": str(settings.authorization_webhook_config_file),
        },
    }
    return {"type": WEBHOOK, "name": "default", "webhook": webhook}
