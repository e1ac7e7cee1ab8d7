"""The API groups of this server, in the order of discovery.

To add a group or a version, add a module under `api/<group>/` and a line here.
"""

from kapiserver.api.group import Group

GROUPS = (
    Group(name="", package="core", versions=("v1",)),
    Group(
        name="apiregistration.k8s.io",
        package="apiregistration",
        versions=("v1",),
        unserved=("v1beta1",),
    ),
    Group(name="apps", package="apps", versions=("v1",), unserved=("v1beta2", "v1beta1")),
    Group(name="events.k8s.io", package="events", versions=("v1",), unserved=("v1beta1",)),
    Group(
        name="authentication.k8s.io",
        package="authentication",
        versions=("v1",),
        unserved=("v1beta1", "v1alpha1"),
    ),
    Group(
        name="authorization.k8s.io",
        package="authorization",
        versions=("v1",),
        unserved=("v1beta1",),
    ),
    Group(name="autoscaling", package="autoscaling", versions=("v2", "v1")),
    Group(name="batch", package="batch", versions=("v1",), unserved=("v1beta1",)),
    Group(
        name="certificates.k8s.io",
        package="certificates",
        versions=("v1", "v1beta1"),
        unserved=("v1alpha1",),
    ),
    Group(name="networking.k8s.io", package="networking", versions=("v1",), unserved=("v1beta1",)),
    Group(name="policy", package="policy", versions=("v1",), unserved=("v1beta1",)),
    Group(
        name="rbac.authorization.k8s.io",
        package="rbac",
        versions=("v1",),
        unserved=("v1beta1", "v1alpha1"),
    ),
    Group(
        name="storage.k8s.io",
        package="storage",
        versions=("v1",),
        unserved=("v1beta1", "v1alpha1"),
    ),
    Group(
        name="admissionregistration.k8s.io",
        package="admissionregistration",
        versions=("v1", "v1beta1", "v1alpha1"),
    ),
    Group(
        name="apiextensions.k8s.io",
        package="apiextensions",
        versions=("v1",),
        unserved=("v1beta1",),
    ),
    Group(
        name="scheduling.k8s.io",
        package="scheduling",
        versions=("v1", "v1beta1", "v1alpha3"),
    ),
    Group(
        name="coordination.k8s.io",
        package="coordination",
        versions=("v1", "v1beta1", "v1alpha2"),
    ),
    Group(name="node.k8s.io", package="node", versions=("v1",), unserved=("v1beta1", "v1alpha1")),
    Group(name="discovery.k8s.io", package="discovery", versions=("v1",), unserved=("v1beta1",)),
    Group(
        name="resource.k8s.io",
        package="resource",
        versions=("v1", "v1beta2", "v1beta1", "v1alpha3"),
    ),
    Group(
        name="flowcontrol.apiserver.k8s.io",
        package="flowcontrol",
        versions=("v1",),
        unserved=("v1beta3", "v1beta2", "v1beta1"),
    ),
    Group(name="internal.apiserver.k8s.io", package="apiserverinternal", versions=("v1alpha1",)),
    Group(name="storagemigration.k8s.io", package="storagemigration", versions=("v1", "v1beta1")),
    Group(name="lifecycle.k8s.io", package="lifecycle", versions=("v1alpha1",)),
)
"""The groups that are served, unless the configuration disables a version."""

METRICS = Group(name="metrics.k8s.io", package="metrics", versions=("v1beta1",))
CUSTOM_METRICS = Group(
    name="custom.metrics.k8s.io", package="custom_metrics", versions=("v1beta2", "v1beta1")
)
EXTERNAL_METRICS = Group(
    name="external.metrics.k8s.io", package="external_metrics", versions=("v1beta1",)
)
"""The groups of metrics, which are served only if something computes them."""

META = Group(name="meta.k8s.io", package="meta", versions=("v1",), unserved=("v1beta1",))
"""Kinds that every group shares: Status, DeleteOptions, Table, ... Never stored."""

DISCOVERY = Group(name="apidiscovery.k8s.io", package="apidiscovery", versions=("v2",))
"""The kinds of aggregated discovery, which are never stored. Discovery does not list the group."""

UNSERVED_GROUPS = (
    Group(name="admission.k8s.io", package="admission", unserved=("v1", "v1beta1")),
    Group(name="audit.k8s.io", package="audit", unserved=("v1",)),
    Group(name="extensions", package="extensions", unserved=("v1beta1",)),
    Group(name="imagepolicy.k8s.io", package="imagepolicy", unserved=("v1alpha1",)),
)
"""Groups whose objects are read and written but never served: those of webhooks and logs, and
groups that Kubernetes has removed."""

DECLARED_GROUPS = (*GROUPS, META, DISCOVERY, *UNSERVED_GROUPS)
"""All groups that have types."""
