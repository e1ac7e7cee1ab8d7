"""`kapiserver clusters create|list|delete|kubeconfig`: the logical clusters of a running server.

The commands are a client of the server's API; `kubectl get clusters` shows the same objects.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kapiserver.api.resource_client import StatusError
from kapiserver.api.types import Tree
from kapiserver.flags.values import positive

if TYPE_CHECKING:
    from kapiserver.client import Client, Resource

    _Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_Command = Callable[["Client", argparse.Namespace], Awaitable[None]]


def add_clusters_commands(commands: _Commands) -> None:
    """Add the commands and their flags."""
    clusters = commands.add_parser(
        "clusters",
        help="create, list and delete the logical clusters of a server",
        description="Manage the logical clusters of a server that runs with "
        "--enable-logical-clusters.",
    ).add_subparsers(required=True, metavar="COMMAND", title="commands")
    create = _add(
        clusters, "create", _create,
        help_text="create a cluster and print its kubeconfig",
        description="Create a cluster, wait until it is ready, and print the kubeconfig of its "
        "administrator.",
    )  # fmt: skip
    create.add_argument(
        "--max-objects", type=positive, metavar="N",
        help="Number of objects that the cluster may have. Default: no limit.",
    )  # fmt: skip
    create.add_argument(
        "--authentication-config", type=Path, metavar="FILE",
        help="File of an AuthenticationConfiguration, whose field jwt names the issuers of tokens "
        "that count in the cluster. Default: no users besides the administrator and service "
        "accounts.",
    )  # fmt: skip
    create.add_argument(
        "--simulate-nodes", type=positive, metavar="N",
        help="Let pods run in the cluster, on N simulated nodes. Default: pods do not run.",
    )  # fmt: skip
    below = _add(
        clusters, "list", _list, has_name=False,
        help_text="list the clusters",
        description="Print the name, the phase and the URL of each cluster, those of one "
        "organisation together.",
    )  # fmt: skip
    below.add_argument(
        "name", metavar="NAME", nargs="?", default="",
        help="Only this cluster, and those below it, such as NAME and TEAM.NAME. Default: all.",
    )  # fmt: skip
    _add(
        clusters, "delete", _delete,
        help_text="delete a cluster and all that it has",
        description="Delete a cluster and all objects in it, and wait until they are gone.",
    )  # fmt: skip
    _add(
        clusters, "kubeconfig", _print_kubeconfig,
        help_text="print the kubeconfig of a cluster's administrator",
        description="Print the kubeconfig of a cluster's administrator.",
    )  # fmt: skip


def _add(
    commands: _Commands,
    name: str,
    command: _Command,
    *,
    help_text: str,
    description: str,
    has_name: bool = True,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=help_text, description=description)
    parser.set_defaults(command=lambda options: _run(command, options), verbose=0)
    if has_name:
        parser.add_argument("name", metavar="NAME", help="Name of the cluster. Required.")
    parser.add_argument(
        "--kubeconfig", type=Path, default=Path(), metavar="FILE",
        help="The kubeconfig of the server's administrator. Default: $KUBECONFIG, else the files "
        "of the pod, else ~/.kube/config.",
    )  # fmt: skip
    return parser


def _run(command: _Command, options: argparse.Namespace) -> int:
    from kapiserver.client import Client  # loads an HTTP client

    options.kubeconfig = "" if options.kubeconfig == Path() else options.kubeconfig

    async def run() -> None:
        async with Client.from_kubeconfig(options.kubeconfig) as client:
            await command(client, options)

    try:
        asyncio.run(run())
    except StatusError as error:
        if error.code == 404 and not (error.status.get("details") or {}).get("name"):
            raise ValueError("the server runs without --enable-logical-clusters") from None
        raise
    return 0


def _clusters(client: Client) -> Resource:
    from kapiserver.clusters.cluster_kind import CLUSTERS, RESOURCE

    return client.resource(str(CLUSTERS), RESOURCE)


async def _create(client: Client, options: argparse.Namespace) -> None:
    from kapiserver.clusters.cluster_kind import cluster, record_of

    issuers = _read_issuers(options.authentication_config)
    new = cluster(
        options.name,
        max_objects=options.max_objects,
        issuers=issuers,
        nodes=options.simulate_nodes,
    )
    created = await _clusters(client).create(new)
    changes = _clusters(client).watch(
        resource_version=created["metadata"]["resourceVersion"],
        fieldSelector=f"metadata.name={options.name}",
    )
    async for event in changes:
        if event.type == "MODIFIED" and record_of(event.object).is_open_to_requests:
            break
    await _print_kubeconfig(client, options)


def _read_issuers(file: Path | None) -> Sequence[Tree]:
    """Return the issuers of an AuthenticationConfiguration. Raises BadConfiguration."""
    if file is None:
        return ()
    from kapiserver.apiserver.authentication.jwt.config import KINDS, configuration_errors
    from kapiserver.apiserver.authentication.jwt.settings import PURPOSE
    from kapiserver.apiserver.configuration_files import BadConfiguration, read_configuration

    tree = read_configuration(
        file, KINDS, purpose=PURPOSE, validate=lambda tree: configuration_errors(tree, ())
    )
    if tree.get("anonymous") is not None:
        raise BadConfiguration(f"{file}: anonymous cannot be set for one cluster")
    issuers: Sequence[Tree] = tree["jwt"]
    return issuers


async def _list(client: Client, options: argparse.Namespace) -> None:
    clusters = [
        tree
        for tree in (await _clusters(client).list())["items"]
        if f".{tree['metadata']['name']}".endswith(f".{options.name}" if options.name else "")
    ]
    clusters.sort(key=lambda tree: tree["metadata"]["name"].split(".")[::-1])
    rows = [("NAME", "PHASE", "URL")]
    for tree in clusters:
        status = tree.get("status") or {}
        rows.append((tree["metadata"]["name"], status.get("phase", ""), status.get("url", "")))
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    for name, phase, url in rows:
        sys.stdout.write(f"{name:{widths[0]}}   {phase:{widths[1]}}   {url}".rstrip() + "\n")


async def _delete(client: Client, options: argparse.Namespace) -> None:
    clusters, name = _clusters(client), options.name
    await clusters.delete(name)
    while True:
        try:
            current = await clusters.get(name)
        except StatusError as error:
            if error.code != 404:
                raise
            break
        changes = clusters.watch(
            resource_version=current["metadata"]["resourceVersion"],
            fieldSelector=f"metadata.name={name}",
        )
        async for event in changes:
            if event.type == "DELETED":
                break
    sys.stdout.write(f"cluster {name} deleted\n")


async def _print_kubeconfig(client: Client, options: argparse.Namespace) -> None:
    from kapiserver.clusters.credentials import NAMESPACE, credentials_of
    from kapiserver.codecs.yaml import encode_value

    await _clusters(client).get(options.name)  # says that there is no cluster, not no Secret
    secrets = client.resource("v1", "secrets", namespace=NAMESPACE)
    token = credentials_of(await secrets.get(options.name)).token
    tree = _kubeconfig(options.kubeconfig, options.name, token)
    sys.stdout.write(encode_value(tree).decode())


def _kubeconfig(path: str | Path, name: str, token: str) -> Tree:
    """Return a kubeconfig for a cluster, which is reached as the server that the kubeconfig at a
    path names. Raises BadConfiguration."""
    from kapiserver.apiserver.webhooks.cluster_access import find_cluster
    from kapiserver.apiserver.webhooks.credentials import read_pem

    management, _, folder = find_cluster(path)
    cluster: Tree = {"server": f"{management['server'].rstrip('/')}/clusters/{name}"}
    authorities = read_pem(management, "certificate-authority", folder)
    if authorities:
        cluster["certificate-authority-data"] = base64.b64encode(authorities).decode()
    for field in ("tls-server-name", "insecure-skip-tls-verify", "proxy-url"):
        if management.get(field):
            cluster[field] = management[field]
    user = f"{name}-admin"
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
    }
