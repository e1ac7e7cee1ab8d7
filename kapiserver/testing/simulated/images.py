"""Images that simulated nodes cannot pull, as a test says: `server.images.fail("bad:latest")`.

A container of such an image gets ErrImagePull, and then ImagePullBackOff until `recover`. One that
runs already goes on; it needs the image again if its pull policy is Always. The annotation
`simulation.kapiserver.dev/missing-images` of a node says the same about that node.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kapiserver.api.accessors import annotations_of, name_of
from kapiserver.apiserver.user import APISERVER
from kapiserver.simulation.annotations import MISSING_IMAGES
from kapiserver.testing.subject import ServerLoop, Subject, on_server_loop, synchronous

_NOT_SIMULATED = "this server does not simulate nodes; start it with simulate=True"


class Images(Subject):
    """The images that the nodes of one server can pull. Every method concerns the nodes that there
    are, and raises RuntimeError if the server does not simulate."""

    def __init__(self, loop: ServerLoop, settle: Callable[[], Awaitable[None]]) -> None:
        super().__init__(loop)
        self._settle = settle

    @on_server_loop
    async def fail_async(self, image: str) -> None:
        """Let no node find an image any more. A name without a tag means the tag `latest`.
        Idempotent."""
        await self._change(lambda missing: [*(other for other in missing if other != image), image])

    fail = synchronous(fail_async)

    @on_server_loop
    async def recover_async(self, image: str) -> None:
        """Let all nodes find an image again: the containers that wait for it start. `image` is the
        name that `fail` got. Idempotent."""
        await self._change(lambda missing: [other for other in missing if other != image])

    recover = synchronous(recover_async)

    async def _change(self, change: Callable[[list[str]], list[str]]) -> None:
        if not self._server.config.simulation.simulate:
            raise RuntimeError(_NOT_SIMULATED)
        client = self._server.client(APISERVER, user_agent="kapiserver-test", authorize=False)
        nodes = client.resource("v1", "nodes")
        for node in (await nodes.list())["items"]:
            present = (annotations_of(node).get(MISSING_IMAGES) or "").split()
            value = " ".join(change(present)) or None
            annotations = {"annotations": {MISSING_IMAGES: value}}
            await nodes.patch(name_of(node), {"metadata": annotations})
        await self._settle()
