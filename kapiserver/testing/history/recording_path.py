"""What a recording has besides its objects, as a path of the API: times and requests."""

from __future__ import annotations

from kapiserver.apiserver.context import PathHandler, Server
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import Response
from kapiserver.codecs import json
from kapiserver.testing.history.recorder import Recording

RECORDING_PATH = "/kapiserver/recording"
_REQUEST_FIELDS = (
    "number", "time", "user", "user_agent", "verb", "uri", "resource", "namespace", "name",
    "status",
)  # fmt: skip


def recording_handler(recording: Recording) -> PathHandler:
    """Return the handler of RECORDING_PATH: the test's name, the revision and time of each write,
    and the requests without their bodies, as JSON."""
    document = {
        "test": recording.test,
        "writes": [
            {"revision": write.event.revision, "time": write.time} for write in recording.writes
        ],
        "requests": [
            {name: request.get(name) for name in _REQUEST_FIELDS} for request in recording.requests
        ],
    }
    body = json.encode_value(document) + b"\n"

    async def serve_recording_path(server: Server, request: Request) -> Response:  # noqa: ARG001
        return Response(body=body)

    return serve_recording_path
