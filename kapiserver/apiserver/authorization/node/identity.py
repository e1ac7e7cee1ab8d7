"""Recognizes the users that are nodes. Mirrors pkg/auth/nodeidentifier of Kubernetes."""

from __future__ import annotations

from kapiserver.apiserver.user import User

NODES = "system:nodes"
PREFIX = "system:node:"


def node_name(user: User) -> str | None:
    """Return the name of the node that a user is, "" if the user does not say which; None if the
    user is not a node."""
    if not user.name.startswith(PREFIX) or NODES not in user.groups:
        return None
    return user.name.removeprefix(PREFIX)
