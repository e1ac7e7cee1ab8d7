"""The identity of a StatefulSet's pod: its ordinal, name, labels and revision.

Mirrors pkg/controller/statefulset/stateful_set_utils.go.
"""

from __future__ import annotations

import re

from kapiserver.api.accessors import copy_tree, labels_of, metadata_of, name_of, value_at
from kapiserver.api.types import Tree
from kapiserver.controllers.workloads.pod_control import pod_from_template
from kapiserver.controllers.workloads.revisions import REVISION_HASH, template_of
from kapiserver.controllers.workloads.stateful_set.volume_claims import with_volumes

POD_NAME = "statefulset.kubernetes.io/pod-name"
POD_INDEX = "apps.kubernetes.io/pod-index"
_PARENT_AND_ORDINAL = re.compile("(.*)-([0-9]+)", re.DOTALL)
_MAX_ORDINAL = 2**31 - 1


def is_member(owner: Tree, pod: Tree) -> bool:
    """Report whether the pod's name is that of the StatefulSet with an ordinal."""
    match = _PARENT_AND_ORDINAL.fullmatch(name_of(pod))
    return match is not None and match[1] == name_of(owner) and int(match[2]) <= _MAX_ORDINAL


def ordinal_of(pod: Tree) -> int:
    """Return the ordinal at the end of a member's name."""
    return int(name_of(pod).rpartition("-")[2])


def ordinals_of(owner: Tree) -> range:
    """Return the ordinals that the pods of a StatefulSet should have."""
    start = value_at(owner, "spec", "ordinals", "start") or 0
    replicas = value_at(owner, "spec", "replicas")
    return range(start, start + (1 if replicas is None else replicas))


def revision_of(pod: Tree) -> str:
    """Return the name of the revision from which the pod was created, or ""."""
    return labels_of(pod).get(REVISION_HASH) or ""


def new_pod(owner: Tree, revision: Tree, ordinal: int) -> Tree:
    """Return the pod of an ordinal, with the template of a revision."""
    pod = pod_from_template(template_of(revision), owner)
    metadata = metadata_of(pod)
    del metadata["generateName"]
    name = metadata["name"] = f"{name_of(owner)}-{ordinal}"
    pod = with_volumes(owner, with_identity(pod), ordinal)
    metadata_of(pod)["labels"][REVISION_HASH] = name_of(revision)
    pod["spec"]["hostname"] = name
    if service := value_at(owner, "spec", "serviceName"):
        pod["spec"]["subdomain"] = service
    return pod


def has_identity(pod: Tree) -> bool:
    """Report whether the pod's label has its name."""
    return labels_of(pod).get(POD_NAME) == name_of(pod)


def with_identity(pod: Tree) -> Tree:
    """Return a copy of the pod with the labels of its name and ordinal."""
    pod = copy_tree(pod)
    labels = {POD_NAME: name_of(pod), POD_INDEX: str(ordinal_of(pod))}
    metadata_of(pod)["labels"] = {**labels_of(pod), **labels}
    return pod
