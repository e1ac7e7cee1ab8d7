"""Lists the groups that a server has."""

from __future__ import annotations

from collections.abc import Sequence

from kapiserver.rpc.registration import Call, Group, Version, endpoint_name

from . import types


class Server:
    """Implements the calls of discovery.

    groups  the groups that it lists
    """

    def __init__(self, groups: Sequence[Group]) -> None:
        served = sorted(groups, key=lambda group: (group.name, group.project))
        self._response = types.ListGroupsResponse(groups=[_served_group(group) for group in served])

    async def list_groups(
        self, request: types.ListGroupsRequest, call: Call
    ) -> types.ListGroupsResponse:
        """Return all groups."""
        return self._response


def _served_group(group: Group) -> types.ServedGroup:
    return types.ServedGroup(
        name=group.name,
        project=group.project,
        versions=[_served_version(group, version) for version in group.versions],
    )


def _served_version(group: Group, version: Version) -> types.ServedVersion:
    return types.ServedVersion(
        name=version.name,
        service=version.full_service,
        endpoint=endpoint_name(group, version),
        deprecated=version.deprecated,
        calls=[method.name for method in version.methods],
    )
