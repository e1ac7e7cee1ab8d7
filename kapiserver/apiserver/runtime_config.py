"""Which versions and resources are on: stable ones, and what `--runtime-config` says.

Knows names and declared groups, no type and no request. Mirrors
pkg/server/resourceconfig/helpers.go and pkg/server/options/api_enablement.go of k8s.io/apiserver.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from kapiserver.api.group import GroupVersion, is_stable
from kapiserver.api.groups import DECLARED_GROUPS, GROUPS

_ALL = "api/all"
_LEVELS: dict[str, re.Pattern[str]] = {
    _ALL: re.compile(r".*"),
    "api/ga": re.compile(r"v\d+"),
    "api/beta": re.compile(r"v\d+beta\d+"),
    "api/alpha": re.compile(r"v\d+alpha\d+"),
}
"""What addresses many versions at once, in the order in which they take effect."""

_BOOLEANS = {
    **dict.fromkeys(("", "1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}
"""As Go's strconv.ParseBool has it, and nothing means true."""

Serves = Callable[[GroupVersion, str], bool]
"""Whether a resource is on in a version."""


def parse_runtime_config(text: str) -> dict[str, str]:
    """The flag's value, `key[=value],...`, by key; the last of a key holds."""
    found = {}
    for part in filter(None, text.split(",")):
        key, _, value = part.partition("=")
        found[key.strip()] = value.strip()
    return found


def served(settings: Mapping[str, str]) -> Serves:
    """What the settings leave on. Raises ValueError in kube-apiserver's words."""
    if dict(settings) == {_ALL: "false"}:
        raise ValueError(f"invalid key with only {_ALL}=false")
    keys = {key: _parts(key) for key in settings if key not in _LEVELS}
    known = {group.name: group.declared_versions for group in DECLARED_GROUPS}
    unknown = [parts[0] for parts in keys.values() if parts[0] not in known]
    if unknown:
        raise ValueError(f"unknown api groups {','.join(unknown)}")
    versions = _levels(settings)
    resources: dict[tuple[GroupVersion, str], bool] = {}
    for key, (group, version, *resource) in keys.items():
        found = GroupVersion(group, version)
        if version not in known[group]:
            raise ValueError(f"group version {found} that has not been registered")
        on = _boolean(key, settings[key])
        if not resource:
            versions[found] = on
        elif resource[0] != resource[0].lower():
            raise ValueError(
                f"invalid key {key}: group/version/resource and resource is always lowercase "
                f'plural, not "{resource[0]}"'
            )
        else:
            resources[found, resource[0]] = on
    return lambda version, resource: resources.get((version, resource), versions[version])


def _levels(settings: Mapping[str, str]) -> dict[GroupVersion, bool]:
    every = [version for group in GROUPS for version in group.group_versions]
    on = {version: is_stable(version.version) for version in every}
    for level, pattern in _LEVELS.items():
        value = settings.get(level)
        if value is None:
            continue
        if value not in ("true", "false"):
            raise ValueError(f"invalid value {level}={value}")
        for version in every:
            if pattern.fullmatch(version.version):
                on[version] = value == "true"
    return on


def _parts(key: str) -> list[str]:
    parts = key.split("/")
    if len(parts) not in (2, 3):
        raise ValueError(f"runtime-config invalid key {key}")
    return parts


def _boolean(key: str, value: str) -> bool:
    found = _BOOLEANS.get(value)
    if found is None:
        raise ValueError(
            f"invalid value of {key}: {value}, err: strconv.ParseBool: "
            f'parsing "{value}": invalid syntax'
        )
    return found
