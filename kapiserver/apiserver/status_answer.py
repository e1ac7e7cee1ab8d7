"""A Status as an answer, in the best encoding that the client takes."""

from __future__ import annotations

import orjson

from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.respond import Response


def answer_status(server: Server, request: Request, tree: Tree) -> Response:
    """Answer with a Status; JSON where the client takes nothing that is offered."""
    answer = Response(
        status=tree["code"], media_type="application/json", body=orjson.dumps(tree) + b"\n"
    )
    retry_after = tree.get("details", {}).get("retryAfterSeconds")
    if retry_after:
        answer.headers.append(("Retry-After", str(retry_after)))
    return answer
