"""The operations of the control API that set the metrics of a simulated cluster."""

from __future__ import annotations

from kapiserver.testing.control_api.schemas import EMPTY_RESULT, arguments_of
from kapiserver.testing.control_api.session import Operation, Session, Tree
from kapiserver.testing.simulated.metrics import Metrics

_NAMESPACE = {"namespace": "Its namespace. Without it, `default`."}


async def _set_usage(session: Session, arguments: Tree) -> Tree:
    await session.server.metrics.set_usage_async(**arguments)
    return {}


async def _set(session: Session, arguments: Tree) -> Tree:
    await session.server.metrics.set_async(**arguments)
    return {}


async def _set_external(session: Session, arguments: Tree) -> Tree:
    await session.server.metrics.set_external_async(**arguments)
    return {}


METRICS_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="setUsage",
        method="POST",
        path="/metrics/usage",
        summary="Set what the containers of a simulated pod use of CPU and memory.",
        run=_set_usage,
        result=EMPTY_RESULT,
        arguments=arguments_of(
            Metrics.set_usage,
            {
                **_NAMESPACE,
                "pod": "The name of the pod.",
                "cpu": "A quantity such as `500m`, or a percentage of the request such as `80%`.",
                "memory": "A quantity such as `1Gi`, or a percentage of the request.",
                "container": "The name of one container. Without it, all containers are meant.",
            },
        ),
    ),
    Operation(
        name="setMetric",
        method="POST",
        path="/metrics/set",
        summary="Set the value of a custom metric of an object.",
        run=_set,
        result=EMPTY_RESULT,
        arguments=arguments_of(
            Metrics.set,
            {
                **_NAMESPACE,
                "target": "The object: `pod/web-0`, `deployment.apps/web`.",
                "metric": "The name of the metric.",
                "value": "The value, a quantity.",
            },
        ),
    ),
    Operation(
        name="setExternalMetric",
        method="POST",
        path="/metrics/set-external",
        summary="Set a value of a metric that is not of an object.",
        run=_set_external,
        result=EMPTY_RESULT,
        arguments=arguments_of(
            Metrics.set_external,
            {
                "metric": "The name of the metric.",
                "value": "The value, a quantity.",
                "labels": "Labels that selectors of autoscalers select.",
                "name": "The ConfigMap that holds the value. Without it, its name is made from "
                "that of the metric.",
                "namespace": "The namespace of the autoscalers. Without it, `default`.",
            },
        ),
    ),
)
