"""POST of `serviceaccounts/token`: sign a token, bound to the object that the request names.

Mirrors TokenREST of pkg/registry/core/serviceaccount/storage.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from kapiserver.api.accessors import metadata_of, uid_of, value_at
from kapiserver.api.core.service_account_token import validate_token_expiration
from kapiserver.api.errors import FieldError, InvalidObject, Path, invalid
from kapiserver.api.group import CORE, GroupVersionKind
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.chain import admission
from kapiserver.apiserver.caller import Caller, Warnings
from kapiserver.apiserver.config import ServiceAccountSettings
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.decode import (
    Body,
    check_namespace,
    decode_body,
    field_validation,
    read_body,
)
from kapiserver.apiserver.endpoints.field_managers import track_ownership
from kapiserver.apiserver.endpoints.negotiation import UNCONVERTED, negotiate
from kapiserver.apiserver.endpoints.options import is_dry_run, read_options
from kapiserver.apiserver.endpoints.responses import plain_response
from kapiserver.apiserver.errors import BadRequest, UnknownResource
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse
from kapiserver.apiserver.target import Target
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.errors import NotFound, ObjectConflict
from kapiserver.storage.objects.lifecycle import timestamp

_BINDABLE_KINDS = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}
_SECONDS = Path("spec") / "expirationSeconds"
_DEFAULT_SECONDS = 3600
_PROJECTED_SECONDS = 3607
"""The expiry that the ServiceAccount admission plugin asks for in the volumes of Pods."""
ISSUED_CREDENTIAL_ID = "authentication.kubernetes.io/issued-credential-id"
"""The audit annotation with the identifier of the issued token."""


async def request_token(server: Server, request: Request, target: Target) -> AnyResponse:
    """Return a TokenRequest with the token."""
    if server.service_account_tokens is None:
        raise UnknownResource
    response_format = negotiate(server, request, UNCONVERTED)
    body = await read_body(server, request, target)
    options = read_options(server, request, "CreateOptions")
    tree = await create_token(server, target, request.caller(), options, body)
    run = server.offloader.run
    return await run(body.cost, plain_response, server, response_format, tree, 201)


async def create_token(
    server: Server, target: Target, caller: Caller, options: Tree, body: Body
) -> Tree:
    """Return the TokenRequest with the token. Raises UnknownResource if the server signs none."""
    tokens = server.service_account_tokens
    if tokens is None:
        raise UnknownResource
    token_request = await decode_body(
        server, target, body, field_validation(options), caller.warnings
    )
    check_namespace(target, token_request)
    caller.audit.record_reference(token_request)
    spec = token_request.setdefault("spec", {})
    if spec.get("expirationSeconds") is None:
        spec["expirationSeconds"] = _DEFAULT_SECONDS
    track_ownership(server, caller, target, options, live=None, new=token_request)
    admit = admission(server, caller, target, options, dry_run=is_dry_run(options))
    admitted = await admit(token_request, None)
    _check_metadata(target, token_request)
    account = (await target.store.get(target.key)).tree()
    spec = token_request["spec"]  # admission may have replaced it
    spec["audiences"] = spec.get("audiences") or list(tokens.audiences)
    spec.setdefault("boundObjectRef", None)
    if errors := list(validate_token_expiration(spec["expirationSeconds"], _SECONDS)):
        raise _invalid(errors)
    await admitted.validate()
    bound = await _bound_objects(server, target, spec["boundObjectRef"] or {})
    _shorten(server.config.service_accounts, spec, caller.warnings)
    seconds = spec["expirationSeconds"]
    extend = (
        server.config.service_accounts.service_account_extend_token_expiration
        and _is_extended(spec, bound, tokens.audiences)
    )
    now = server.clock.now()
    sign = functools.partial(tokens.sign, account, bound, spec["audiences"], seconds, extend=extend)
    issued = await server.offloader.run(body.cost, sign)
    caller.audit.annotations[ISSUED_CREDENTIAL_ID] = f"JTI={issued.id}"
    metadata_of(token_request)["uid"] = server.stores.identifiers.uid()
    _complete(token_request, issued.text, now)
    return token_request


def _complete(token_request: Tree, token: str, now: float) -> None:
    """Set the status and the time of a TokenRequest, and the order of its fields."""
    spec, metadata = token_request["spec"], metadata_of(token_request)
    metadata["creationTimestamp"] = timestamp(now)
    reorder_keys(metadata, ObjectMeta)
    expiry = timestamp(now + spec["expirationSeconds"])
    token_request["status"] = {"token": token, "expirationTimestamp": expiry}
    names = ("audiences", "expirationSeconds", "boundObjectRef", "attestations")
    token_request["spec"] = {name: spec[name] for name in names if name in spec}


def _shorten(settings: ServiceAccountSettings, spec: Tree, warnings: Warnings) -> None:
    """Limit the expiry to --service-account-max-token-expiration, with a warning."""
    maximum = int(settings.service_account_max_token_expiration)
    if 0 < maximum < spec["expirationSeconds"]:
        warnings.add(
            f"requested expiration of {spec['expirationSeconds']} seconds shortened to "
            f"{maximum} seconds"
        )
        spec["expirationSeconds"] = maximum


def _is_extended(
    spec: Tree, bound: Sequence[tuple[str, Tree]], api_audiences: Sequence[str]
) -> bool:
    """Report whether a token is that of a Pod's projected volume, for a program that may read it
    only once."""
    return (
        spec["expirationSeconds"] == _PROJECTED_SECONDS
        and any(kind == "pod" for kind, _ in bound)
        and set(spec["audiences"]) <= set(api_audiences)
    )


def _check_metadata(target: Target, token_request: Tree) -> None:
    metadata, name = metadata_of(token_request), target.key.name
    if metadata.get("name") not in (None, "", name):
        detail = "must match the service account name if specified"
        raise _invalid([invalid(Path("metadata") / "name", metadata["name"], detail)], name)
    metadata |= {"name": name, "namespace": target.key.namespace}


def _invalid(errors: list[FieldError], name: str = "") -> InvalidObject:
    return InvalidObject(
        group="authentication.k8s.io", kind="TokenRequest", name=name, errors=errors
    )


async def _bound_objects(server: Server, target: Target, reference: Tree) -> list[tuple[str, Tree]]:
    """Return the objects that the token is bound to, with their kinds. Raises NotFound, BadRequest,
    ObjectConflict."""
    if not reference:
        return []
    kind = GroupVersionKind.from_reference(
        reference.get("apiVersion") or "", reference.get("kind") or ""
    )
    resource = _BINDABLE_KINDS.get(kind.kind) if not kind.group else None
    if resource is None:
        raise BadRequest(f"cannot bind token to object of type {kind}")
    namespace = "" if resource == "nodes" else target.key.namespace
    name = reference.get("name") or ""
    tree = (await server.stores.by_name(CORE, resource).get(ObjectKey(namespace, name))).tree()
    objects = [(kind.kind.lower(), tree)]
    if resource == "pods":
        account = value_at(tree, "spec", "serviceAccountName") or ""
        if account != target.key.name:
            raise BadRequest(
                f'cannot bind token for serviceaccount "{target.key.name}" to pod running with '
                f"different serviceaccount name."
            )
        objects.extend(await _node_of(server, tree))
    uid = reference.get("uid")
    if uid and uid != uid_of(tree):
        detail = (
            f"the UID in the bound object reference ({uid}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        raise ObjectConflict(detail, resource=kind.kind, group="", name=name)
    return objects


async def _node_of(server: Server, pod: Tree) -> list[tuple[str, Tree]]:
    name = value_at(pod, "spec", "nodeName")
    if not name:
        return []
    try:
        node = await server.stores.by_name(CORE, "nodes").get(ObjectKey("", name))
    except NotFound:
        return [("node", {"metadata": {"name": name}})]
    return [("node", node.tree())]
