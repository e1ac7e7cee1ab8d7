"""Names the flow schema and the priority level of each request in the response's headers.

Mirrors filters/priority-and-fairness.go of k8s.io/apiserver, without its queues.
"""

from __future__ import annotations

from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse

SCHEMA_HEADER = "X-Kubernetes-Pf-Flowschema-Uid"
LEVEL_HEADER = "X-Kubernetes-Pf-Prioritylevel-Uid"


def add_flow_headers(server: Server, next_handler: Handler) -> Handler:
    """Classify requests, or add nothing to the chain when the server has no classifier."""
    classifier = server.flow_classifier
    if classifier is None:
        return next_handler

    async def handle(request: Request) -> AnyResponse:
        response = await next_handler(request)
        if request.decision is not None:  # the user is known, also of what was forbidden
            flow = classifier.classify(request.user, request.info)
            if flow is not None:
                response.headers.append((SCHEMA_HEADER, flow.schema_uid))
                response.headers.append((LEVEL_HEADER, flow.level_uid))
        return response

    return handle
