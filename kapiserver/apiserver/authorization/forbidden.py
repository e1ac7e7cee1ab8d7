"""The error for a request that is not authorized, with kube-apiserver's message.

Mirrors endpoints/handlers/responsewriters/errors.go of k8s.io/apiserver.
"""

from __future__ import annotations

from kapiserver.apiserver.errors import NotAuthorized
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.user import User


def forbidden(user: User, info: RequestInfo, reason: str) -> NotAuthorized:
    """Return the error for a request that no authorizer allowed."""
    return NotAuthorized(
        forbidden_message(user, info, reason),
        resource=info.resource,
        group=info.version.group,
        name=info.name,
    )


def forbidden_message(user: User, info: RequestInfo, reason: str) -> str:
    """Return the message with user, verb and resource, and the reason unless it is empty."""
    suffix = f": {reason}" if reason else ""
    if not info.is_resource_request:
        return f'User "{user.name}" cannot {info.verb} path "{info.path}"{suffix}'
    resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
    scope = f' in the namespace "{info.namespace}"' if info.namespace else " at the cluster scope"
    return (
        f'User "{user.name}" cannot {info.verb} resource "{resource}" in API group '
        f'"{info.version.group}"{scope}{suffix}'
    )
