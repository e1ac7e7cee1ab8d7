"""The AuthorizationConfiguration of a server: the file of `--authorization-config`, or the one that
the other flags of authorization stand for.

Mirrors pkg/kubeapiserver/options/authorization.go of kube-apiserver.
"""

from __future__ import annotations

from pathlib import Path

from kapiserver.api.types import Tree
from kapiserver.apiserver.config import Config

ABAC, NODE, RBAC, WEBHOOK = "ABAC", "Node", "RBAC", "Webhook"
DEFAULT_MODES = (RBAC,)
MODES = ("ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook")


PURPOSE = "authorization configuration"


def configuration_file(config: Config) -> Path | None:
    """Return the file of the configuration, None if flags stand for it. Raises ValueError for flags
    that contradict the file."""
    file = config.authorization_config
    flags = (config.authorization_mode, config.authorization_webhook_config_file)
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


def settings_of_flags(config: Config) -> Tree:
    """Return the configuration that flags stand for. Raises ValueError for flags that contradict
    each other."""
    modes = DEFAULT_MODES if config.authorization_mode is None else config.authorization_mode
    if not modes:
        raise ValueError("at least one authorization-mode must be passed")
    _check_modes(config, modes)
    return {"authorizers": [_authorizer(config, mode) for mode in modes]}


def _check_modes(config: Config, modes: tuple[str, ...]) -> None:
    for mode in modes:
        if mode not in MODES:
            raise ValueError(f'authorization-mode "{mode}" is not a valid mode')
        if modes.count(mode) > 1:
            raise ValueError(f'authorization-mode "{mode}" is specified more than once')
    for mode, file, flag in (
        (ABAC, config.authorization_policy_file, "--authorization-policy-file"),
        (WEBHOOK, config.authorization_webhook_config_file, "--authorization-webhook-config-file"),
    ):
        if mode in modes and file is None:
            file_kind = "policy" if mode == ABAC else "config"
            raise ValueError(
                f"authorization-mode {mode}'s authorization {file_kind} file not passed"
            )
        if mode not in modes and file is not None:
            raise ValueError(f"cannot specify {flag} without mode {mode}")


def _authorizer(config: Config, mode: str) -> Tree:
    if mode != WEBHOOK:
        return {"type": mode, "name": mode.lower()}
    webhook = {
        "authorizedTTL": f"{config.authorization_webhook_cache_authorized_ttl:f}s",
        "unauthorizedTTL": f"{config.authorization_webhook_cache_unauthorized_ttl:f}s",
        "timeout": "30s",
        "subjectAccessReviewVersion": config.authorization_webhook_version,
        "failurePolicy": "NoOpinion",
        "connectionInfo": {
            "type": "KubeConfigFile",
            "kubeConfigFile": str(config.authorization_webhook_config_file),
        },
    }
    return {"type": WEBHOOK, "name": "default", "webhook": webhook}
