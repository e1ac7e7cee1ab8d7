"""Reads of objects that are computed for the request and never stored, such as metrics of pods.

The groups of `Server.computed` are served here: their `read` returns the object or list as a tree.
`computed_response` makes the response of any such tree.
"""

from __future__ import annotations

from kapiserver.api.accessors import kind_of
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.endpoints.negotiation import COMPUTED, ResponseFormat, negotiate
from kapiserver.apiserver.endpoints.object_responses import (
    OFFLOAD_COUNT,
    current_time,
    kind_table_builder,
)
from kapiserver.apiserver.endpoints.responses import plain_response
from kapiserver.apiserver.endpoints.tables import partial_metadata
from kapiserver.apiserver.errors import (
    MethodNotAllowed,
    UnknownResource,
    UnsupportedResponseKind,
)
from kapiserver.apiserver.request import Query, Request
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.response import AnyResponse, Response
from kapiserver.codecs.cost import LARGE

_VERBS = ("get", "list")


async def serve_computed(server: Server, request: Request) -> AnyResponse:
    """Serve a read of a computed group. Raises UnknownResource, MethodNotAllowed, NotFound,
    BadObject, NotAcceptable."""
    if request.method != "GET":
        raise MethodNotAllowed
    response_format = negotiate(server, request, COMPUTED)
    tree = await read_computed(server, request.info, request.query)
    is_long = len(tree.get("items") or ()) >= OFFLOAD_COUNT
    return await server.offloader.run(
        LARGE if is_long else 0, computed_response, server, request, response_format, tree
    )


async def read_computed(server: Server, info: RequestInfo, query: Query) -> Tree:
    """Return the object or list that a read of a computed group asks for. Raises UnknownResource,
    MethodNotAllowed, NotFound, BadObject."""
    if info.prefix != "apis" or not server.scheme.is_served(info.version):
        raise UnknownResource
    if info.verb not in _VERBS:
        raise MethodNotAllowed
    return await server.computed[info.version.group](server, info, query)


def computed_response(
    server: Server, request: Request, response_format: ResponseFormat, tree: Tree
) -> Response:
    """Return a response with an object or a list, whose items have kinds, in the requested format.
    Raises UnsupportedResponseKind, BadRequest."""
    kind = kind_of(tree)
    is_list = "items" in tree
    convert = response_format.convert
    if convert is None:
        return plain_response(server, response_format, _with_bare_items(tree) if is_list else tree)
    items = tree["items"] if is_list else [tree]
    metadata = tree.get("metadata") or {} if is_list else {}
    if response_format.is_table:
        item_kind = kind._replace(kind=kind.kind.removesuffix("List")) if is_list else kind
        table = kind_table_builder(server, request, response_format, item_kind)
        document = table.head(metadata)
        document["rows"] = [table.row(item, current_time(server)) for item in items]
        return plain_response(server, response_format, document)
    if is_list != convert.kind.endswith("List"):
        raise UnsupportedResponseKind(f"you requested {convert.kind}, but the object is {kind}")
    version = convert.group_version
    partial = [partial_metadata(item, version) for item in items]
    if not is_list:
        return plain_response(server, response_format, partial[0])
    head = {"kind": convert.kind, "apiVersion": str(version), "metadata": metadata}
    return plain_response(server, response_format, head | {"items": partial})


def _with_bare_items(tree: Tree) -> Tree:
    """Return a list as it is sent: its items have no kind and apiVersion."""
    bare = [
        {key: value for key, value in item.items() if key not in ("kind", "apiVersion")}
        for item in tree["items"]
    ]
    return tree | {"items": bare}
