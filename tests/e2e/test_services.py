"""Services of a cluster of two servers, the `kubernetes` Service, tokens, and drain."""

import http.client
import json
import ssl
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.e2e.cluster import call, serving
from tests.e2e.programs import Kubectl, Server
from tests.storage.etcd_server import Member

SERVICES = "/api/v1/namespaces/default/services"
ENDPOINTS = "/api/v1/namespaces/default/endpoints"
REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"


def eventually(read: Callable[[], Any], is_expected: Callable[[Any], bool]) -> Any:
    """Call `read` until its result is as expected, for at most a minute."""
    deadline = time.monotonic() + 60
    while not is_expected(response := read()):
        assert time.monotonic() < deadline, response
        time.sleep(0.05)
    return response


def ports_of(endpoints: Any) -> set[int]:
    return {port["port"] for subset in endpoints["subsets"] for port in subset["ports"]}


def wait_for_ports(server: Server, ports: set[int]) -> None:
    """Wait until the Endpoints and the EndpointSlices of the Service `kubernetes` have these
    ports."""

    def items(collection: str) -> Any:
        return call(server, "GET", f"{collection}?fieldSelector=metadata.name=kubernetes")["items"]

    eventually(
        lambda: items(ENDPOINTS), lambda found: [ports_of(each) for each in found] == [ports]
    )
    eventually(
        lambda: call(server, "GET", SLICES)["items"],
        lambda slices: sorted(each["ports"][0]["port"] for each in slices) == sorted(ports),
    )


def port_of(server: Server) -> int:
    return int(server.url.rpartition(":")[2])


def test_servers_share_addresses_and_endpoints(tmp_path: Path, etcd: Member) -> None:
    """Services created by two servers at once have different addresses and node ports; the Service
    `kubernetes` lists both servers, and only one after the other has stopped."""
    with serving(tmp_path / "one", etcd, "/shared") as first:
        with serving(tmp_path / "other", etcd, "/shared") as second:

            def make(number: int) -> Any:
                body = {
                    "metadata": {"name": f"s{number}"},
                    "spec": {"type": "NodePort", "ports": [{"port": 80}]},
                }
                return call((first, second)[number % 2], "POST", SERVICES, body, status=201)["spec"]

            with ThreadPoolExecutor(8) as pool:
                services = list(pool.map(make, range(30)))
            assert len({spec["clusterIP"] for spec in services} | {"10.0.0.1"}) == 31
            assert len({spec["ports"][0]["nodePort"] for spec in services}) == 30
            ports = {port_of(first), port_of(second)}
            wait_for_ports(first, ports)
        wait_for_ports(first, {port_of(first)})


def test_cluster_info(server: Server, kubectl: Kubectl) -> None:
    """kubectl cluster-info finds the server and its Service."""
    assert "Kubernetes control plane" in kubectl("cluster-info")
    wait_for_ports(server, {port_of(server)})  # the Service comes before its endpoints
    arguments = (
        "-n",
        "default",
        "get",
        "service",
        "kubernetes",
        "-o",
        "jsonpath={.spec.clusterIP}",
    )
    assert kubectl(*arguments) == "10.0.0.1"


def test_token(server: Server, newest: Kubectl, namespace: str) -> None:
    """A token of a service account authenticates it until the account is deleted."""
    newest("create", "serviceaccount", "robot")
    token = newest("create", "token", "robot").strip()

    def whoami() -> tuple[int, Any]:
        context = ssl.create_default_context(cafile=str(server.ca_file))
        host = server.url.removeprefix("https://")
        connection = http.client.HTTPSConnection(host, timeout=60, context=context)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        connection.request("POST", REVIEW, "{}", headers)
        response = connection.getresponse()
        review = json.loads(response.read())
        connection.close()
        return response.status, review

    status, user_info = whoami()
    assert status == 201
    user = user_info["status"]["userInfo"]
    assert user["username"] == f"system:serviceaccount:{namespace}:robot"
    assert f"system:serviceaccounts:{namespace}" in user["groups"]
    newest("delete", "serviceaccount", "robot")
    assert whoami()[0] == 401


def test_drain(kubectl: Kubectl, namespace: str) -> None:
    """kubectl drain evicts the pods of a node."""
    node: Any = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": namespace}}
    kubectl("create", "-f", "-", stdin=json.dumps(node))
    pod = {
        "kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"},
        "spec": {
            "nodeName": namespace, "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "i"}],
        },
    }  # fmt: skip
    kubectl("create", "-f", "-", stdin=json.dumps(pod))
    assert "pod/p evicted" in kubectl("drain", namespace, "--force", "--timeout=60s")
    assert kubectl("get", "pods", "-o", "name") == ""
    kubectl("delete", "node", namespace)
