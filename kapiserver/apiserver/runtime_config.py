"""The API versions and resources that are on: stable versions, changed by `--runtime-config`.

Knows the names of declared groups, no type and no request. Mirrors
pkg/server/resourceconfig/helpers.go and pkg/server/options/api_enablement.go of k8s.io/apiserver.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from kapiserver.api.group import Group, GroupVersion, is_stable
from kapiserver.api.groups import DECLARED_GROUPS, GROUPS
from kapiserver.api.releases import (
    NEWEST_MINOR,
    ON_BY_DEFAULT,
    group_versions_served_again,
)
from kapiserver.api.scheme import Scheme
from kapiserver.api.strategy import Strategy
from kapiserver.apiserver.config import FeatureSettings
from kapiserver.apiserver.feature_gates import FeatureGates
from kapiserver.apiserver.version import DEFAULT_VERSIONS, versions_of

_ALL = "api/all"
_VERSION_SETS: dict[str, re.Pattern[str]] = {
    _ALL: re.compile(r".*"),
    "api/ga": re.compile(r"v\d+"),
    "api/beta": re.compile(r"v\d+beta\d+"),
    "api/alpha": re.compile(r"v\d+alpha\d+"),
}
"""The keys that stand for many versions, in the order in which they take effect."""

_GO_BOOLS = {
    **dict.fromkeys(("", "1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}
"""The values of Go's strconv.ParseBool; an empty value means true."""

ResourceFilter = Callable[[GroupVersion, str], bool]
"""Reports whether a resource is on in a version."""


def make_scheme(settings: FeatureSettings, added_groups: Sequence[Group] = ()) -> Scheme:
    """Return the scheme of a server that serves the declared groups and `added_groups`. Raises
    ValueError for settings that do not parse."""
    minor, compatible = versions_of(settings.emulated_version, settings.min_compatibility_version)
    return Scheme(
        (*GROUPS, *added_groups),
        is_enabled=resource_filter(
            parse_runtime_config(settings.runtime_config), added_groups, minor=minor
        ),
        release=minor if minor < NEWEST_MINOR else None,
        compatible_release=compatible if (minor, compatible) != DEFAULT_VERSIONS else None,
        strategies=_strategies(settings.feature_gates),
    )


def _strategies(gates: FeatureGates) -> dict[str, dict[str, Strategy]]:
    """Return the strategies that feature gates change, by group."""
    if "ManifestBasedAdmissionControlConfig" in gates:
        return {}
    from kapiserver.api.admissionregistration.strategies import make_strategies  # not by default

    return {"admissionregistration.k8s.io": make_strategies(reserves_names=False)}


def parse_runtime_config(text: str) -> dict[str, str]:
    """Parse the flag's value, `key[=value],...`; of a repeated key the last value counts."""
    settings = {}
    for part in filter(None, text.split(",")):
        key, _, value = part.partition("=")
        settings[key.strip()] = value.strip()
    return settings


def resource_filter(
    settings: Mapping[str, str], added_groups: Sequence[Group] = (), *, minor: int = NEWEST_MINOR
) -> ResourceFilter:
    """Return the filter for the settings. All versions of `added_groups` are on unless the settings
    name them; `minor` is that of the release to emulate. Raises ValueError with kube-apiserver's
    message."""
    if dict(settings) == {_ALL: "false"}:
        raise ValueError(f"invalid key with only {_ALL}=false")
    keys = {key: _split_key(key) for key in settings if key not in _VERSION_SETS}
    declared_versions = {
        group.name: group.declared_versions for group in (*DECLARED_GROUPS, *added_groups)
    }
    unknown = [parts[0] for parts in keys.values() if parts[0] not in declared_versions]
    if unknown:
        raise ValueError(f"unknown api groups {','.join(unknown)}")
    enabled_versions = _version_defaults(settings, minor)
    enabled_versions |= {v: True for group in added_groups for v in group.group_versions}
    enabled_resources: dict[tuple[GroupVersion, str], bool] = {}
    for key, (group, version, *resource) in keys.items():
        group_version = GroupVersion(group, version)
        if version not in declared_versions[group]:
            raise ValueError(f"group version {group_version} that has not been registered")
        enabled = _parse_bool(key, settings[key])
        if not resource:
            enabled_versions[group_version] = enabled
        elif resource[0] != resource[0].lower():
            raise ValueError(
                f"invalid key {key}: group/version/resource and resource is always lowercase "
                f'plural, not "{resource[0]}"'
            )
        else:
            enabled_resources[group_version, resource[0]] = enabled
    return lambda version, resource: enabled_resources.get(
        (version, resource), enabled_versions[version]
    )


def _version_defaults(settings: Mapping[str, str], minor: int) -> dict[GroupVersion, bool]:
    all_versions = [
        *(version for group in GROUPS for version in group.group_versions),
        *group_versions_served_again(minor),
    ]
    enabled = {
        version: is_stable(version.version) or version in ON_BY_DEFAULT for version in all_versions
    }
    for key, pattern in _VERSION_SETS.items():
        value = settings.get(key)
        if value is None:
            continue
        if value not in ("true", "false"):
            raise ValueError(f"invalid value {key}={value}")
        for version in all_versions:
            if pattern.fullmatch(version.version):
                enabled[version] = value == "true"
    return enabled


def _split_key(key: str) -> list[str]:
    parts = key.split("/")
    if len(parts) not in (2, 3):
        raise ValueError(f"runtime-config invalid key {key}")
    return parts


def _parse_bool(key: str, value: str) -> bool:
    enabled = _GO_BOOLS.get(value)
    if enabled is None:
        raise ValueError(
            f"invalid value of {key}: {value}, err: strconv.ParseBool: "
            f'parsing "{value}": invalid syntax'
        )
    return enabled
