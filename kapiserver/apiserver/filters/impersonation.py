"""Makes a request as another user, if its headers ask for that and the caller may.

Mirrors filters/impersonation of k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable

from kapiserver.apiserver.authentication.constrained_impersonation import GATE, Attempt, attempts
from kapiserver.apiserver.authentication.impersonation import Impersonation, parse_impersonation
from kapiserver.apiserver.authorization.forbidden import forbidden
from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.errors import Forbidden
from kapiserver.apiserver.request import Impersonator, Request
from kapiserver.apiserver.response import AnyResponse


def impersonate(server: Server, next_handler: Handler) -> Handler:
    """Replace the user of requests with Impersonate-* headers. Raises BadImpersonation,
    Forbidden."""
    constrained = GATE in server.config.features.feature_gates

    def handle(request: Request) -> Awaitable[AnyResponse]:
        impersonation = parse_impersonation(request.headers)
        if impersonation is None:
            return next_handler(request)
        return handle_as(impersonation, request)

    async def handle_as(impersonation: Impersonation, request: Request) -> AnyResponse:
        caller = request.user
        ways = attempts(impersonation, caller, request.info, constrained=constrained)
        attempt = await _first_authorized(server, ways)
        request.impersonator = Impersonator(caller, attempt.constraint)
        request.user = attempt.user
        return await next_handler(request)

    return handle


async def _first_authorized(server: Server, ways: Iterable[Attempt]) -> Attempt:
    """Return the first attempt that the authorizer allows. Raises the Forbidden of the first one
    that it does not."""
    errors: list[Forbidden] = []
    for attempt in ways:
        try:
            await _authorize(server, attempt)
        except Forbidden as error:
            if not errors:
                errors.append(error)
        else:
            return attempt
    raise errors.pop()  # an error that this frame kept would be in a cycle with it


async def _authorize(server: Server, attempt: Attempt) -> None:
    for info in attempt.checks:
        decision = await server.authorizer.authorize(attempt.caller, info)
        if not decision.allowed:
            raise forbidden(attempt.caller, info, decision.reason)
    if attempt.forbidden_check is not None:
        info, reason = attempt.forbidden_check
        raise forbidden(attempt.caller, info, reason)
