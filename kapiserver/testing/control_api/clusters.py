"""The operations of the control API that create and delete logical clusters."""

from __future__ import annotations

from kapiserver.testing.control_api.schemas import CLUSTER, EMPTY_RESULT, STRING, Argument
from kapiserver.testing.control_api.session import Operation, Session, Tree


async def _create(session: Session, arguments: Tree) -> Tree:
    cluster = await session.clusters.create_async(**arguments)
    return {
        "name": cluster.name,
        "url": cluster.url,
        "token": cluster.token,
        "kubeconfig": str(cluster.kubeconfig),
    }


async def _delete(session: Session, arguments: Tree) -> Tree:
    await session.clusters.delete_async(**arguments)
    return {}


CLUSTER_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        name="createCluster",
        method="POST",
        path="/clusters",
        summary="Create a cluster with objects, definitions and roles of its own, on a server with "
        "the setting `enable_logical_clusters=true`.",
        run=_create,
        result=CLUSTER,
        arguments={
            "name": Argument(
                schema=STRING,
                description="The name of the cluster. Without it, one that no other has.",
            )
        },
    ),
    Operation(
        name="deleteCluster",
        method="DELETE",
        path="/clusters/{name}",
        summary="Delete a cluster; respond when it is gone.",
        run=_delete,
        result=EMPTY_RESULT,
        arguments={"name": Argument(schema=STRING, description="The name.", required=True)},
    ),
)
