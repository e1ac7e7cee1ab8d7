"""The annotations that controllers, provisioners and the scheduler set on claims and volumes.

Facts of Kubernetes 1.37, by component-helpers/storage/volume.
"""

from __future__ import annotations

BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
"""The class of a claim or volume that is older than `spec.storageClassName`."""
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
"""A claim with it has been bound; without its volume it is lost."""
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
"""A controller, and no user, has written the reference between claim and volume."""
DYNAMICALLY_PROVISIONED = "pv.kubernetes.io/provisioned-by"
"""The provisioner that made a volume."""
SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""The node of the first consumer of a claim. The scheduler sets it, a provisioner that fails there
removes it."""
STORAGE_PROVISIONERS = (
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/storage-provisioner",
)
"""The provisioner that is to make a volume for a claim; the binder writes both."""
