"""The WebhookAdmissionConfiguration of the plugins MutatingAdmissionWebhook and
ValidatingAdmissionWebhook.

Mirrors pkg/admission/plugin/webhook/config of k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path as FilePath

from msgspec import Struct

from kapiserver.api.errors import FieldError, Path, invalid
from kapiserver.api.group import GroupVersionKind
from kapiserver.api.types import Kind, Tree, field
from kapiserver.apiserver.admission.configuration import PluginConfiguration
from kapiserver.apiserver.admission.manifest_configuration import manifests_dir_errors


class WebhookAdmissionConfiguration(Kind):
    """The credentials of the server for webhooks, and the directory of static configurations."""

    kubeConfigFile: str = field(1)
    staticManifestsDir: str = field(2)


_KINDS: dict[GroupVersionKind, type[Kind]] = {
    GroupVersionKind(group, version, kind): WebhookAdmissionConfiguration
    for group, version, kind in (
        ("apiserver.config.k8s.io", "v1", "WebhookAdmissionConfiguration"),
        ("apiserver.config.k8s.io", "v1alpha1", "WebhookAdmission"),
    )
}


class WebhookSettings(Struct, frozen=True):
    """The paths in the configuration.

    kubeconfig  the file with the server's credentials for webhooks
    manifests   the directory of static webhook configurations
    """

    kubeconfig: FilePath | None = None
    manifests: FilePath | None = None


def read_webhook_settings(configuration: PluginConfiguration) -> WebhookSettings:
    """Return the paths in the configuration. Raises BadAdmissionConfiguration."""
    if not configuration.data.strip():
        return WebhookSettings()
    tree = configuration.decode(_KINDS, _errors)
    kubeconfig, manifests = (
        FilePath(tree[name]) if tree.get(name) else None
        for name in ("kubeConfigFile", "staticManifestsDir")
    )
    return WebhookSettings(kubeconfig, manifests)


def _errors(tree: Tree) -> Iterator[FieldError]:
    file, manifests = tree.get("kubeConfigFile") or "", tree.get("staticManifestsDir")
    if not FilePath(file).is_absolute() and (file or not manifests):
        yield invalid(Path("kubeConfigFile"), file, "must be an absolute file path")
    yield from manifests_dir_errors(tree)
