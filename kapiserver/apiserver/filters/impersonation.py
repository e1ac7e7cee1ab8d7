"""Makes a request as another user, if its headers ask for that and the caller may.

Mirrors filters/impersonation of k8s.io/apiserver.
"""

from __future__ import annotations

from kapiserver.apiserver.authentication.impersonation import parse_impersonation
from kapiserver.apiserver.authorization.forbidden import forbidden
from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse


def impersonate(server: Server, next_handler: Handler) -> Handler:
    """Replace the user of requests with Impersonate-* headers. Raises BadRequest, Forbidden."""
    authorizer = server.authorizer

    async def handle(request: Request) -> AnyResponse:
        impersonation = parse_impersonation(request.headers)
        if impersonation is not None:
            for info in impersonation.checks():
                decision = await authorizer.authorize(request.user, info)
                if not decision.allowed:
                    raise forbidden(request.user, info, decision.reason)
            request.impersonator = request.user
            request.user = impersonation.impersonated_user()
        return await next_handler(request)

    return handle
