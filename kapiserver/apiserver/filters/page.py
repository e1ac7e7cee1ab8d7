"""Serves the page at /ui without credentials, and finds the user of the requests that it sends."""

from __future__ import annotations

from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse
from kapiserver.apiserver.user import ANONYMOUS


def serve_page(server: Server, next_handler: Handler) -> Handler:
    """Return what belongs to the page, and pass other requests on; without --enable-ui, return
    `next_handler` itself."""
    page = server.page
    if page is None:
        return next_handler

    async def handle(request: Request) -> AnyResponse:
        if request.is_of_page:
            if request.user is ANONYMOUS:
                request.user = page.user_of(request)
        elif page.has_path(request.path):
            return await page.serve(request)
        return await next_handler(request)

    return handle
