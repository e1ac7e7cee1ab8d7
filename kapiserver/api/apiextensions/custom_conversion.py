"""A custom object in another version where nothing but its name differs (strategy None).

Mirrors nopConverter of k8s.io/apiextensions-apiserver/pkg/apiserver/conversion.
"""

from __future__ import annotations

from kapiserver.api.accessors import copy_tree
from kapiserver.api.apiextensions.pruning import prune
from kapiserver.api.custom_kinds import CustomVersion
from kapiserver.api.errors import ConversionFailed
from kapiserver.api.types import Tree


def convert(obj: Tree, version: CustomVersion) -> Tree:
    """The object in a version, without the fields that this version does not know.

    Raises ConversionFailed where a webhook is to be asked, which is not done here.
    """
    if version.definition.uses_conversion_webhook:
        raise ConversionFailed(f"{version.definition.name}: only its webhook converts")
    source = version.definition.versions.get(obj["apiVersion"].rpartition("/")[2])
    if source is not None and version.has_same_schema(source):
        return {**obj, "apiVersion": str(version.group_version)}
    found: Tree = copy_tree({**obj, "apiVersion": str(version.group_version)})
    if not version.preserves_unknown_fields:
        prune(found, version.structural, [])
    return found
