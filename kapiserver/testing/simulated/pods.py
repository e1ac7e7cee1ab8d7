"""The fate of simulated pods, set by a test in one line: `server.pods.fail("web-0")`.

Each method sets annotations of `kapiserver/simulation/` on a pod, returns when the server
has reacted, and holds until `recover`. A pod that replaces this one has a fate of its own, which
annotations in the template of a workload set.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from kapiserver.api.accessors import annotations_of
from kapiserver.api.resource_client import ResourceClient
from kapiserver.apiserver.user import APISERVER
from kapiserver.simulation.annotations import PREFIX
from kapiserver.testing.subject import ServerLoop, Subject, on_server_loop, synchronous

_NOT_SIMULATED = "this server does not simulate pods; start it with simulate=True"


class Pods(Subject):
    """The pods of one server. Every method raises StatusError if there is no such pod, and
    RuntimeError if the server does not simulate."""

    def __init__(self, loop: ServerLoop, settle: Callable[[], Awaitable[None]]) -> None:
        super().__init__(loop)
        self._settle = settle

    @on_server_loop
    async def fail_async(
        self,
        name: str,
        *,
        namespace: str = "default",
        container: str = "",
        exit_code: int = 1,
        oom: bool = False,
    ) -> None:
        """End the containers of a pod, or one of them, with an exit code, and end them so whenever
        they are restarted. With `oom` they are killed for their memory."""
        from kapiserver.simulation.fate import MOMENT  # only for a server that simulates

        fate = {"oom": "true"} if oom else {"exit-code": str(exit_code)}
        fate["run-seconds"] = str(MOMENT)  # also if the pod would run for longer
        suffix = f".{container}" if container else ""
        annotations = {f"{PREFIX}{key}{suffix}": value for key, value in fate.items()}
        await self._annotate(name, namespace, annotations)

    fail = synchronous(fail_async)

    @on_server_loop
    async def set_ready_async(
        self, name: str, ready: bool, *, namespace: str = "default", container: str = ""
    ) -> None:
        """Let the readiness probes of a pod, or of one container, succeed or fail."""
        suffix = f".{container}" if container else ""
        value = "true" if ready else "false"
        await self._annotate(name, namespace, {f"{PREFIX}ready{suffix}": value})

    set_ready = synchronous(set_ready_async)

    @on_server_loop
    async def recover_async(self, name: str, *, namespace: str = "default") -> None:
        """Remove the fate of a pod: its containers stay up after the next restart."""
        pod = await self._pods(namespace).get(name)
        fate = [key for key in annotations_of(pod) if key.startswith(PREFIX)]
        await self._annotate(name, namespace, dict.fromkeys(fate))

    recover = synchronous(recover_async)

    @on_server_loop
    async def answer_async(
        self,
        name: str,
        command: Sequence[str] = (),
        *,
        namespace: str = "default",
        container: str = "",
        stdout: str = "",
        stderr: str = "",
        exit_code: int = 0,
    ) -> None:
        """Decide what a command in a pod, or in one container, writes and returns; without a
        command, what every command does that has no answer of its own. Exec gives the answer."""
        # Only for a server that simulates.
        from kapiserver.simulation.streams.answers import Answer, read_answers, written_answers

        answer = Answer(
            command=tuple(command) or None, stdout=stdout, stderr=stderr, exit_code=exit_code
        )
        key = f"{PREFIX}exec.{container}" if container else f"{PREFIX}exec"
        text = annotations_of(await self._pods(namespace).get(name)).get(key, "[]")
        others = [other for other in read_answers(text) if other.command != answer.command]
        await self._annotate(name, namespace, {key: written_answers([*others, answer])})

    answer = synchronous(answer_async)

    @on_server_loop
    async def log_async(
        self, name: str, line: str, *, namespace: str = "default", container: str = ""
    ) -> None:
        """Let the containers of a pod, or one of them, write a line to their log now."""
        from kapiserver.simulation.streams.container_log import timed_line

        key = f"{PREFIX}log.{container}" if container else f"{PREFIX}log"
        text = annotations_of(await self._pods(namespace).get(name)).get(key, "")
        line = timed_line(self._server.clock.now(), line)
        await self._annotate(name, namespace, {key: f"{text}{line}\n"})

    log = synchronous(log_async)

    def _pods(self, namespace: str) -> ResourceClient:
        if not self._server.config.simulation.simulate:
            raise RuntimeError(_NOT_SIMULATED)
        client = self._server.client(APISERVER, user_agent="kapiserver-test", authorize=False)
        return client.resource("v1", "pods", namespace=namespace)

    async def _annotate(
        self, name: str, namespace: str, annotations: Mapping[str, str | None]
    ) -> None:
        await self._pods(namespace).patch(name, {"metadata": {"annotations": annotations}})
        await self._settle()
