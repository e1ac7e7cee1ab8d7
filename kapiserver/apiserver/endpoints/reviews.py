"""Reviews: TokenReview, SelfSubjectReview and the access reviews. Reviews are never stored.

`Server.authenticator` and `Server.authorizer` make every decision. The calls of added groups
(`Server.calls`) have the form of reviews and are served here, too. Mirrors
pkg/registry/authentication and pkg/registry/authorization of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import TypeAlias

from kapiserver.api.accessors import kind_of
from kapiserver.api.authorization import validation
from kapiserver.api.errors import FieldError, InvalidObject
from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.chain import admission
from kapiserver.apiserver.authentication.authenticator import InvalidCredentials
from kapiserver.apiserver.authorization.access_review import (
    field_selector_text,
    label_selector_text,
)
from kapiserver.apiserver.authorizer import Verdict
from kapiserver.apiserver.caller import Caller
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.decode import (
    Body,
    check_namespace,
    decode_object,
    field_validation,
    read_body,
)
from kapiserver.apiserver.endpoints.field_managers import track_ownership
from kapiserver.apiserver.endpoints.negotiation import UNCONVERTED, negotiate
from kapiserver.apiserver.endpoints.options import is_dry_run, read_options
from kapiserver.apiserver.endpoints.responses import plain_response
from kapiserver.apiserver.errors import BadRequest
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.response import AnyResponse
from kapiserver.apiserver.target import Target
from kapiserver.apiserver.user import User, user_info

ReviewHandler: TypeAlias = Callable[[Server, User, Tree], Awaitable[Tree]]
"""Returns the review that the client sent with its status. Raises BadRequest, InvalidObject."""

_ANY = "*"


async def serve_review(server: Server, request: Request, target: Target) -> AnyResponse:
    """Serve the create of a review or call. Raises NotAcceptable for a Table,
    RouteNotAcceptable."""
    response_format = negotiate(server, request, UNCONVERTED)
    body = await read_body(server, request, target)
    options = read_options(server, request, "CreateOptions")
    tree = await create_review(server, target, request.caller(), options, body)
    run = server.offloader.run
    return await run(body.cost, plain_response, server, response_format, tree, 201)


async def create_review(
    server: Server, target: Target, caller: Caller, options: Tree, body: Body
) -> Tree:
    """Return the review or call in the body with its status."""

    def new_review() -> Tree:
        review = decode_object(server, target, body, field_validation(options), caller.warnings)
        check_namespace(target, review)
        caller.audit.record_reference(review)
        track_ownership(server, caller, target, options, live=None, new=review)
        return review

    review = await server.offloader.run(body.cost, new_review)
    admit = admission(server, caller, target, options, dry_run=is_dry_run(options))
    admitted = await admit(review, None)
    await admitted.validate()
    handle_call = server.calls.get((target.resource.group, target.resource.name))
    if handle_call is not None:
        return await handle_call(server, target.kind, caller, review)
    return await REVIEWS[target.resource.kind](server, caller.user, review)


# Authentication.


async def _token_review(server: Server, _user: User, review: Tree) -> Tree:
    spec = review["spec"]
    if not spec.get("token"):
        raise BadRequest("token is required for TokenReview in authentication")
    audiences = spec.get("audiences") or ()
    try:
        identity = await server.authenticator.authenticate_token(spec["token"], audiences)
    except InvalidCredentials as error:
        status: Tree = {"user": {}, "error": str(error)}
    else:
        user = user_info(identity.user)
        status = {"authenticated": True, "user": user, "audiences": list(identity.audiences)}
    return {**review, "status": status}


async def _self_subject_review(server: Server, user: User, review: Tree) -> Tree:
    moment = datetime.fromtimestamp(server.clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "kind": review["kind"],
        "apiVersion": review["apiVersion"],
        "metadata": {"creationTimestamp": moment},
        "status": {"userInfo": user_info(user)},
    }


# Authorization.


async def _subject_access(server: Server, user: User, review: Tree) -> Tree:
    _raise_if_invalid(review, validation.validate_subject_access_review(review))
    return await _access(server, review, await _subject(server, review["spec"]))


async def _local_subject_access(server: Server, user: User, review: Tree) -> Tree:
    _raise_if_invalid(review, validation.validate_local_subject_access_review(review))
    return await _access(server, review, await _subject(server, review["spec"]))


async def _self_subject_access(server: Server, user: User, review: Tree) -> Tree:
    _raise_if_invalid(review, validation.validate_self_subject_access_review(review))
    return await _access(server, review, user)


def _raise_if_invalid(review: Tree, errors: Iterable[FieldError]) -> None:
    error_list = list(errors)
    if error_list:  # kube-apiserver leaves out the kind, too
        group = kind_of(review).group
        raise InvalidObject(group=group, kind="", name="", errors=error_list)


async def _subject(server: Server, spec: Tree) -> User:
    parts = len(spec.get("groups") or ()) + len(spec.get("extra") or ())
    return await server.offloader.run(parts, _user, spec)


def _user(spec: Tree) -> User:
    return User(
        name=spec.get("user") or "",
        uid=spec.get("uid") or "",
        groups=tuple(spec.get("groups") or ()),
        extra={name: tuple(values or ()) for name, values in (spec.get("extra") or {}).items()},
    )


async def _access(server: Server, review: Tree, user: User) -> Tree:
    decision = await server.authorizer.authorize(user, reviewed_request(review["spec"]))
    status: Tree = {"allowed": decision.allowed}
    if decision.verdict is Verdict.DENY:
        status["denied"] = True
    if decision.reason:
        status["reason"] = decision.reason
    if decision.error:
        status["evaluationError"] = decision.error
    return {**review, "status": status}


def reviewed_request(spec: Tree) -> RequestInfo:
    """Return the request that an access review asks about."""
    resource_attributes = spec.get("resourceAttributes")
    if resource_attributes is None:
        path = spec.get("nonResourceAttributes") or {}
        return RequestInfo(path=path.get("path") or "", verb=path.get("verb") or "")
    group = resource_attributes.get("group") or ""
    return RequestInfo(
        verb=resource_attributes.get("verb") or "",
        version=GroupVersion(group, resource_attributes.get("version") or _ANY),
        namespace=resource_attributes.get("namespace") or "",
        resource=resource_attributes.get("resource") or "",
        subresource=resource_attributes.get("subresource") or "",
        name=resource_attributes.get("name") or "",
        field_selector=field_selector_text(resource_attributes.get("fieldSelector") or {}),
        label_selector=label_selector_text(resource_attributes.get("labelSelector") or {}),
    )


async def _self_subject_rules(server: Server, user: User, review: Tree) -> Tree:
    namespace = review["spec"].get("namespace")
    if not namespace:
        raise BadRequest("no namespace on request")
    rules = await server.authorizer.rules_for(user, namespace)
    status: Tree = {
        "resourceRules": [dict(rule) for rule in rules.resources],
        "nonResourceRules": [dict(rule) for rule in rules.paths],
        "incomplete": rules.incomplete,
    }
    if rules.error:
        status["evaluationError"] = rules.error
    return {**review, "metadata": {}, "spec": {}, "status": status}


REVIEWS: Mapping[str, ReviewHandler] = {
    "LocalSubjectAccessReview": _local_subject_access,
    "SelfSubjectAccessReview": _self_subject_access,
    "SelfSubjectReview": _self_subject_review,
    "SelfSubjectRulesReview": _self_subject_rules,
    "SubjectAccessReview": _subject_access,
    "TokenReview": _token_review,
}
"""The handler of each kind of review."""
