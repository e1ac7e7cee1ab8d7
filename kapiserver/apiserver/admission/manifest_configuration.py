"""The configuration `staticManifestsDir` of the plugins that read static manifests.

Mirrors pkg/admission/plugin/manifest and pkg/admission/plugin/policy/config of k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from kapiserver.api.errors import FieldError, Path, forbidden, invalid
from kapiserver.api.group import GroupVersionKind
from kapiserver.api.types import Kind, Tree, field
from kapiserver.apiserver.admission.configuration import PluginConfiguration
from kapiserver.apiserver.admission.plugin import PluginContext

if TYPE_CHECKING:
    from kapiserver.apiserver.admission.static_manifests import StaticManifests

_GATE = "ManifestBasedAdmissionControlConfig"


class PolicyConfiguration(Kind):
    """A ValidatingAdmissionPolicyConfiguration or a MutatingAdmissionPolicyConfiguration: the
    directory of static policies and bindings."""

    staticManifestsDir: str = field(1)


KINDS: dict[GroupVersionKind, type[Kind]] = {
    GroupVersionKind("apiserver.config.k8s.io", "v1", kind): PolicyConfiguration
    for kind in (
        "ValidatingAdmissionPolicyConfiguration",
        "MutatingAdmissionPolicyConfiguration",
    )
}


def read_policy_manifests_dir(configuration: PluginConfiguration, kind: str) -> FilePath | None:
    """Return the directory of static policies of a kind, None for none. Raises
    BadAdmissionConfiguration."""
    if not configuration.data.strip():
        return None
    kinds = {
        kind_of_objects: type_
        for kind_of_objects, type_ in KINDS.items()
        if kind_of_objects.kind == f"{kind}Configuration"
    }
    tree = configuration.decode(kinds, manifests_dir_errors)
    return FilePath(tree["staticManifestsDir"]) if tree.get("staticManifestsDir") else None


def manifests_dir_errors(tree: Tree) -> Iterator[FieldError]:
    """Yield the errors of the field `staticManifestsDir`."""
    folder = tree.get("staticManifestsDir") or ""
    path = Path("staticManifestsDir")
    if not folder:
        return
    if not FilePath(folder).is_absolute():
        yield invalid(path, folder, "must be an absolute file path")
    elif not FilePath(folder).exists():
        reason = f"unable to read: stat {folder}: no such file or directory"
        yield invalid(path, folder, reason)
    elif not FilePath(folder).is_dir():
        yield invalid(path, folder, "must be a directory")


def load_static_manifests(
    context: PluginContext, folder: FilePath | None, kinds: Mapping[str, str]
) -> StaticManifests | None:
    """Return the objects of a directory, None without a directory. `kinds` are the plural names of
    its resources, by kind. Raises BadAdmissionConfiguration."""
    if folder is None:
        return None
    configuration = context.configuration
    if _GATE not in context.config.features.feature_gates:
        detail = f"staticManifestsDir requires the {_GATE} feature gate to be enabled"
        raise configuration.error(str(forbidden(Path("staticManifestsDir"), detail)))
    # Loads the validation of all these kinds.
    from kapiserver.apiserver.admission.static_manifests import BadManifest, StaticManifests

    try:
        return StaticManifests(
            folder,
            configuration.name,
            kinds,
            context.clock,
            context.metrics,
            context.file_watch,
        )
    except BadManifest as error:
        raise configuration.error(str(error)) from None
