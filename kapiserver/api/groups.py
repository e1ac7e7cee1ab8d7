"""The API groups this server knows, in the order discovery shows them.

To add a group or a version: a module under `api/<group>/` and one line here.
"""

from kapiserver.api.group import Group

GROUPS = (
    Group(name="", package="core", versions=("v1",)),
    Group(name="apps", package="apps", versions=("v1",), unserved=("v1beta2", "v1beta1")),
    Group(name="autoscaling", package="autoscaling", versions=("v2", "v1")),
    Group(
        name="coordination.k8s.io",
        package="coordination",
        versions=("v1",),
        unserved=("v1beta1", "v1alpha2"),
    ),
)

META = Group(name="meta.k8s.io", package="meta", versions=("v1",), unserved=("v1beta1",))
"""Kinds that every group shares: Status, DeleteOptions, Table, ... Spoken, never stored."""

DISCOVERY = Group(
    name="apidiscovery.k8s.io", package="apidiscovery", versions=("v2",), unserved=("v2beta1",)
)
"""Kinds of aggregated discovery. Spoken, never stored, and no group that discovery shows."""

UNSERVED = (
    Group(name="admission.k8s.io", package="admission", unserved=("v1", "v1beta1")),
    Group(
        name="admissionregistration.k8s.io",
        package="admissionregistration",
        unserved=("v1", "v1beta1", "v1alpha1"),
    ),
    Group(name="apiextensions.k8s.io", package="apiextensions", unserved=("v1", "v1beta1")),
    Group(name="apiregistration.k8s.io", package="apiregistration", unserved=("v1", "v1beta1")),
    Group(name="audit.k8s.io", package="audit", unserved=("v1",)),
    Group(
        name="authentication.k8s.io",
        package="authentication",
        unserved=("v1", "v1beta1", "v1alpha1"),
    ),
    Group(name="authorization.k8s.io", package="authorization", unserved=("v1", "v1beta1")),
    Group(name="batch", package="batch", unserved=("v1", "v1beta1")),
    Group(
        name="certificates.k8s.io", package="certificates", unserved=("v1", "v1beta1", "v1alpha1")
    ),
    Group(name="discovery.k8s.io", package="discovery", unserved=("v1", "v1beta1")),
    Group(name="events.k8s.io", package="events", unserved=("v1", "v1beta1")),
    Group(name="extensions", package="extensions", unserved=("v1beta1",)),
    Group(
        name="flowcontrol.apiserver.k8s.io",
        package="flowcontrol",
        unserved=("v1", "v1beta3", "v1beta2", "v1beta1"),
    ),
    Group(name="imagepolicy.k8s.io", package="imagepolicy", unserved=("v1alpha1",)),
    Group(name="internal.apiserver.k8s.io", package="apiserverinternal", unserved=("v1alpha1",)),
    Group(name="lifecycle.k8s.io", package="lifecycle", unserved=("v1alpha1",)),
    Group(name="networking.k8s.io", package="networking", unserved=("v1", "v1beta1")),
    Group(name="node.k8s.io", package="node", unserved=("v1", "v1beta1", "v1alpha1")),
    Group(name="policy", package="policy", unserved=("v1", "v1beta1")),
    Group(name="rbac.authorization.k8s.io", package="rbac", unserved=("v1", "v1beta1", "v1alpha1")),
    Group(
        name="resource.k8s.io",
        package="resource",
        unserved=("v1", "v1beta2", "v1beta1", "v1alpha3"),
    ),
    Group(name="scheduling.k8s.io", package="scheduling", unserved=("v1", "v1beta1", "v1alpha3")),
    Group(name="storage.k8s.io", package="storage", unserved=("v1", "v1beta1", "v1alpha1")),
    Group(name="storagemigration.k8s.io", package="storagemigration", unserved=("v1", "v1beta1")),
)
"""Groups whose objects are read and written, never served: webhooks speak some of them, others
are gone from Kubernetes, most are not served yet. To serve one, move it up and name its versions.
"""

DECLARED_GROUPS = (*GROUPS, META, DISCOVERY, *UNSERVED)
"""All groups that have types."""
