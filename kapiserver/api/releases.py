"""What the releases 1.31 to 1.37 of Kubernetes serve: a table of the changes from each to the next.

`RELEASES` has the facts of Kubernetes' own discovery documents, which contain the versions that are
off by default. The table also has resources whose types this server does not have, so that it says
which release removed them; `WITHOUT_TYPES` names these. Imports no type. To add a release: an entry
in RELEASES, and NEWEST_MINOR.
"""

from __future__ import annotations

import functools

from msgspec import Struct
from msgspec.structs import replace

from kapiserver.api.group import GroupVersion, Resource, sort_versions

OLDEST_MINOR = 31
"""The minor of the oldest release 1.x that the table knows and the server emulates."""
NEWEST_MINOR = 37
"""The minor of the Kubernetes release 1.x that this server implements."""


class Changes(Struct, frozen=True, kw_only=True):
    """Resources that a release began to serve in a version, and those that it ceased to serve.

    A resource is `group/version/resource`, its subresources included; a subresource that came later
    is `group/version/resource/subresource`. The core group is empty.
    """

    added: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()


def _resources(group_version: str, *names: str) -> frozenset[str]:
    return frozenset(f"{group_version}/{name}" for name in names)


_MUTATING = ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings")
_VALIDATING = ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
_CLAIMS = ("deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices")

RELEASES: dict[int, Changes] = {
    31: Changes(),
    32: Changes(
        added=_resources("admissionregistration.k8s.io/v1alpha1", *_MUTATING)
        | _resources("coordination.k8s.io/v1alpha2", "leasecandidates")
        | _resources("resource.k8s.io/v1beta1", *_CLAIMS)
        | _resources("/v1", "pods/resize"),
        removed=_resources("admissionregistration.k8s.io/v1alpha1", *_VALIDATING)
        | _resources("authentication.k8s.io/v1alpha1", "selfsubjectreviews")
        | _resources("coordination.k8s.io/v1alpha1", "leasecandidates")
        | _resources(
            "flowcontrol.apiserver.k8s.io/v1beta3", "flowschemas", "prioritylevelconfigurations"
        )
        | _resources("resource.k8s.io/v1alpha3", "podschedulingcontexts"),
    ),
    33: Changes(
        added=_resources("certificates.k8s.io/v1beta1", "clustertrustbundles")
        | _resources("coordination.k8s.io/v1beta1", "leasecandidates")
        | _resources("networking.k8s.io/v1", "ipaddresses", "servicecidrs")
        | _resources("resource.k8s.io/v1alpha3", "devicetaintrules")
        | _resources("resource.k8s.io/v1beta2", *_CLAIMS),
        removed=_resources("authentication.k8s.io/v1beta1", "selfsubjectreviews"),
    ),
    34: Changes(
        added=_resources("admissionregistration.k8s.io/v1beta1", *_MUTATING)
        | _resources("certificates.k8s.io/v1alpha1", "podcertificaterequests")
        | _resources("resource.k8s.io/v1", *_CLAIMS)
        | _resources("storage.k8s.io/v1", "volumeattributesclasses"),
        removed=_resources("admissionregistration.k8s.io/v1beta1", *_VALIDATING)
        | _resources("resource.k8s.io/v1alpha3", *_CLAIMS),
    ),
    35: Changes(
        added=_resources("certificates.k8s.io/v1beta1", "podcertificaterequests")
        | _resources("resource.k8s.io/v1alpha3", "devicetaintrules/status")
        | _resources("scheduling.k8s.io/v1alpha1", "workloads")
        | _resources("storagemigration.k8s.io/v1beta1", "storageversionmigrations"),
        removed=_resources("certificates.k8s.io/v1alpha1", "podcertificaterequests")
        | _resources("storage.k8s.io/v1alpha1", "volumeattributesclasses")
        | _resources("storagemigration.k8s.io/v1alpha1", "storageversionmigrations"),
    ),
    36: Changes(
        added=_resources("admissionregistration.k8s.io/v1", *_MUTATING)
        | _resources("resource.k8s.io/v1alpha3", "resourcepoolstatusrequests")
        | _resources("resource.k8s.io/v1beta2", "devicetaintrules")
        | _resources("scheduling.k8s.io/v1alpha2", "podgroups", "workloads"),
        removed=_resources("scheduling.k8s.io/v1alpha1", "workloads"),
    ),
    37: Changes(
        added=_resources("certificates.k8s.io/v1", "clustertrustbundles", "podcertificaterequests")
        | _resources("lifecycle.k8s.io/v1alpha1", "evictionrequests", "evictions")
        | _resources("resource.k8s.io/v1", "devicetaintrules")
        | _resources("scheduling.k8s.io/v1alpha3", "compositepodgroups", "podgroups", "workloads")
        | _resources("scheduling.k8s.io/v1beta1", "podgroups", "workloads")
        | _resources("storage.k8s.io/v1", "csinodes/status")
        | _resources("storagemigration.k8s.io/v1", "storageversionmigrations"),
        removed=_resources("certificates.k8s.io/v1alpha1", "clustertrustbundles")
        | _resources("networking.k8s.io/v1beta1", "ipaddresses", "servicecidrs")
        | _resources("scheduling.k8s.io/v1alpha2", "podgroups", "workloads")
        | _resources("storage.k8s.io/v1beta1", "volumeattributesclasses"),
    ),
}
"""The changes of each release against the one before, by the release's minor."""

WITHOUT_TYPES = (
    _resources("certificates.k8s.io/v1alpha1", "podcertificaterequests")
    | _resources("coordination.k8s.io/v1alpha1", "leasecandidates")
    | _resources("resource.k8s.io/v1alpha3", "podschedulingcontexts", *_CLAIMS)
    | _resources("scheduling.k8s.io/v1alpha1", "workloads")
    | _resources("scheduling.k8s.io/v1alpha2", "podgroups", "workloads")
    | _resources("storagemigration.k8s.io/v1alpha1", "storageversionmigrations")
)
"""Removed resources whose types this server does not have: no emulated release serves them."""

ON_BY_DEFAULT = frozenset(
    {GroupVersion("flowcontrol.apiserver.k8s.io", "v1beta3")},
)
"""Beta versions that their releases served without `--runtime-config`."""


@functools.cache
def differences(minor: int) -> Changes:
    """Return what the release 1.x of that minor serves besides the newest release (`added`), and
    what it does not serve yet (`removed`). Raises ValueError for a release not in the table."""
    if minor not in RELEASES:
        raise ValueError(f"the release 1.{minor} is not in the table of releases")
    added: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()
    for later in range(NEWEST_MINOR, minor, -1):
        changes = RELEASES[later]
        added, removed = (
            (added - changes.added) | (changes.removed - removed),
            (removed - changes.removed) | (changes.added - added),
        )
    return Changes(added=added, removed=removed)


def group_versions_served_again(minor: int) -> frozenset[GroupVersion]:
    """Return the group versions of `versions_served_again`."""
    paths = (path.split("/") for path in differences(minor).added - WITHOUT_TYPES)
    return frozenset(GroupVersion(group, version) for group, version, _ in paths)


def versions_served_again(resource: Resource, minor: int) -> tuple[str, ...]:
    """Return the versions that the newest release has removed and the release 1.x serves, as far
    as this server has their types."""
    paths = (path.split("/") for path in differences(minor).added - WITHOUT_TYPES)
    return tuple(
        version
        for group, version, name in paths
        if (group, name) == (resource.group, resource.name)
    )


@functools.cache
def _introduced() -> dict[str, int]:
    """Return the release that introduced each `group/version/resource` of the table."""
    introduced: dict[str, int] = {}
    for minor, changes in RELEASES.items():
        for path in changes.added:
            introduced.setdefault(path, minor)
    return introduced


def storage_version_at(resource: Resource, minor: int, compatible_minor: int) -> str:
    """Return the version in which the release 1.x of `minor` stores objects that the release of
    `compatible_minor` must read: the preferred version that both have, alpha versions left out; if
    there is none, the preferred one of the release itself. Mirrors emulatedStorageVersion of
    server/storage/resource_encoding_config.go of k8s.io/apiserver."""
    versions = sort_versions({*resource.versions, *versions_served_again(resource, minor)})
    since = {
        version: _introduced().get(f"{resource.group}/{version}/{resource.name}", OLDEST_MINOR)
        for version in versions
    }
    compatible = (
        version
        for version in versions
        if "alpha" not in version and since[version] <= compatible_minor
    )
    served = (version for version in versions if since[version] <= minor)
    return next(compatible, None) or next(served, resource.storage_version)


def stored_compatibly(
    resources: tuple[Resource, ...], minor: int | None, compatible_minor: int | None
) -> tuple[Resource, ...]:
    """Return resources with the versions in which `storage_version_at` stores their objects. None
    means the newest release, and the one before it, for which the resources are declared."""
    if compatible_minor is None:
        return resources
    minor = NEWEST_MINOR if minor is None else minor
    return tuple(
        replace(resource, storage_version=storage_version_at(resource, minor, compatible_minor))
        for resource in resources
    )


def resource_at(resource: Resource, minor: int) -> Resource:
    """Return the resource as the release 1.x of that minor served it; without versions if it did
    not. Fields and validation stay those of the newest release."""
    removed = differences(minor).removed
    versions = (
        *(v for v in resource.versions if f"{resource.group}/{v}/{resource.name}" not in removed),
        *versions_served_again(resource, minor),
    )
    paths = [f"{resource.group}/{version}/{resource.name}" for version in versions]
    return replace(
        resource,
        versions=tuple(sort_versions(versions)),
        deprecations=tuple(d for d in resource.deprecations if d.since <= minor),
        subresources=tuple(
            subresource
            for subresource in resource.subresources
            if not all(f"{path}/{subresource.name}" in removed for path in paths)
        ),
    )
