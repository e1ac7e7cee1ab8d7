"""Validation of storage versions: the versions that API servers encode, decode and serve.

Mirrors pkg/apis/apiserverinternal/validation.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api import names
from kapiserver.api.core.validation.common import validate_format
from kapiserver.api.errors import FieldError, Path, duplicate, invalid, required
from kapiserver.api.types import Tree

_VERSIONS = Path("status") / "storageVersions"
_COMMON_VERSION = Path("status") / "commonEncodingVersion"


def name_problems(name: str) -> list[str]:
    """Return the messages about the name of a storage version: a group and a resource."""
    group, dot, resource = name.rpartition(".")
    if not dot:
        return ["name must be in the form of <group>.<resource>"]
    return [
        *(f"the group segment {message}" for message in names.dns1123_subdomain(group)),
        *(f"the resource segment {message}" for message in names.dns1035_label(resource)),
    ]


def validate_status_update(new: Tree, _: Tree) -> Iterator[FieldError]:
    """Validate the versions of each API server, and their common encoding version."""
    status = new.get("status") or {}
    servers, seen = status.get("storageVersions") or [], set()
    for index, server in enumerate(servers):
        field_path, name = _VERSIONS[index], server.get("apiServerID") or ""
        if name in seen:
            yield duplicate(field_path / "apiServerID", name)
        seen.add(name)
        yield from validate_format(names.dns1123_subdomain, name, field_path / "apiServerID")
        yield from _validate_server(server, field_path)
    encodings = {server.get("encodingVersion") for server in servers}
    common_version = status.get("commonEncodingVersion")
    if len(encodings) == 1:
        (encoding,) = encodings
        if common_version is None:
            yield required(_COMMON_VERSION, f"the common encoding version is {encoding}")
        elif common_version != encoding:
            yield invalid(
                _COMMON_VERSION, common_version, f"the actual common encoding version is {encoding}"
            )
    elif common_version is not None:
        detail = (
            "should be nil if servers do not agree on the same encoding version, or if there is "
            "no server reporting the supported versions yet"
        )
        yield invalid(_COMMON_VERSION, common_version, detail)
    for index, condition in enumerate(status.get("conditions") or ()):
        field_path = (Path("status") / "conditions")[index]
        for field in ("type", "status", "reason"):
            if not condition.get(field):
                yield required(field_path / field)


def _validate_server(server: Tree, path: Path) -> Iterator[FieldError]:
    version = server.get("encodingVersion") or ""
    decodable_versions = server.get("decodableVersions") or []
    if version not in decodable_versions:
        detail = f"decodableVersions must include encodingVersion {version}"
        yield invalid(path / "decodableVersions", decodable_versions, detail)
    for served_version in server.get("servedVersions") or ():
        if served_version not in decodable_versions:
            detail = (
                f"individual served version : {served_version} must be included in "
                "decodableVersions"
            )
            yield invalid(path / "servedVersions", server["servedVersions"], detail)
