"""The metrics of a server that simulates, set by a test in one line: `server.metrics.set_usage`.

Each method writes what `kapiserver/simulation/metrics/` reads: annotations of objects, and
ConfigMaps. It returns when the server has reacted; an autoscaler reads metrics at its next turn,
up to 15 seconds of the clock later. A pod that replaces another one has metrics of its own, which
annotations in the template of a workload set.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from kapiserver.api.quantity import parse
from kapiserver.api.resource_client import Client, StatusError
from kapiserver.apiserver.user import APISERVER
from kapiserver.simulation.annotations import PREFIX
from kapiserver.simulation.metrics.custom_metrics import METRIC
from kapiserver.simulation.metrics.external_metrics import EXTERNAL
from kapiserver.simulation.metrics.usage import used
from kapiserver.testing.state.kinds import find_resource
from kapiserver.testing.subject import ServerLoop, Subject, on_server_loop, synchronous

_NO_LABELS: Mapping[str, str] = {}
_NOT_SIMULATED = "this server does not simulate metrics; start it with simulate=True"


class Metrics(Subject):
    """The metrics of one server. Every method raises StatusError if there is no such object,
    ValueError for a value that is not a quantity, and RuntimeError if the server does not
    simulate."""

    def __init__(self, loop: ServerLoop, settle: Callable[[], Awaitable[None]]) -> None:
        super().__init__(loop)
        self._settle = settle

    @on_server_loop
    async def set_usage_async(
        self,
        pod: str,
        *,
        cpu: str = "",
        memory: str = "",
        container: str = "",
        namespace: str = "default",
    ) -> None:
        """Set what each container of a pod uses, or one of them: a quantity, or a percentage of
        what it requests, such as `500m` or `80%`. What is empty stays as it is."""
        usage = {name: text for name, text in (("cpu", cpu), ("memory", memory)) if text}
        for name, text in usage.items():
            used(text, name, None)  # an annotation that cannot be read would count as missing
        suffix = f".{container}" if container else ""
        annotations = {f"{PREFIX}{name}-usage{suffix}": text for name, text in usage.items()}
        await self._annotate("pods", pod, namespace, annotations)

    set_usage = synchronous(set_usage_async)

    @on_server_loop
    async def set_async(
        self, target: str, metric: str, value: str, *, namespace: str = "default"
    ) -> None:
        """Set the value of a custom metric of an object.

        target  `kind/name`, such as `pod/web-0` or `deployment.apps/web`
        """
        kind, _, name = target.rpartition("/")
        if not kind or not name:
            raise ValueError(f"{target!r} is not an object: write kind/name")
        parse(value)
        await self._annotate(kind, name, namespace, {f"{METRIC}{metric}": value})

    set = synchronous(set_async)

    @on_server_loop
    async def set_external_async(
        self,
        metric: str,
        value: str,
        *,
        labels: Mapping[str, str] = _NO_LABELS,
        name: str = "",
        namespace: str = "default",
    ) -> None:
        """Set a value of an external metric, which autoscalers of the namespace see.

        labels  what the selector of an autoscaler selects
        name    the ConfigMap that holds the value; without one, `metric-` and the metric's name
        """
        parse(value)
        config_maps = self._client().resource("v1", "configmaps", namespace=namespace)
        name = name or f"metric-{metric}".lower().replace("_", "-")
        metadata = {"name": name, "labels": {EXTERNAL: "true", **labels}}
        config_map = {"metadata": metadata, "data": {metric: value}}
        try:
            await config_maps.patch(name, config_map)
        except StatusError as error:
            if error.reason != "NotFound":
                raise
            await config_maps.create(config_map)
        await self._settle()

    set_external = synchronous(set_external_async)

    def _client(self) -> Client:
        if not self._server.config.simulation.simulate:
            raise RuntimeError(_NOT_SIMULATED)
        return self._server.client(APISERVER, user_agent="kapiserver-test", authorize=False)

    async def _annotate(
        self, kind: str, name: str, namespace: str, annotations: Mapping[str, str]
    ) -> None:
        client, resource = self._client(), find_resource(self._server.scheme, kind)
        version = f"{resource.group}/{resource.versions[0]}".lstrip("/")
        objects = client.resource(
            version, resource.name, namespace=namespace if resource.namespaced else ""
        )
        await objects.patch(name, {"metadata": {"annotations": annotations}})
        await self._settle()
