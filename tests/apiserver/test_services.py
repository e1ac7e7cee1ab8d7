"""Addresses and node ports of services, and the service `kubernetes`."""

import asyncio
import logging
import random
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from kapiserver.api.group import GroupVersion
from kapiserver.apiserver.allocation.addresses import (
    candidate_addresses,
    has_address,
    service_ranges,
)
from kapiserver.apiserver.allocation.repair import AllocationRepair, Leaks
from kapiserver.apiserver.config import Config
from kapiserver.app import serve
from kapiserver.parts import Parts
from tests.clock import ManualClock
from tests.storage.etcd_server import running_member

PORTS = [{"name": "http", "port": 80}]


def service(name="s", **spec):
    return {"metadata": {"name": name}, "spec": {"ports": [dict(PORTS[0])], **spec}}


def addresses(api):
    items = api.get("/apis/networking.k8s.io/v1/ipaddresses").json["items"]
    return {item["metadata"]["name"]: item["spec"]["parentRef"] for item in items}


def eventually(request, condition):
    """Repeat a request until the response meets a condition, for at most a minute."""
    end = time.monotonic() + 60
    while not condition(response := request()):
        assert time.monotonic() < end, response.body
    return response


@pytest.fixture
def services(core):
    return f"{core}/services"


def test_address(api, services, namespace):
    """A service gets an address of the range and an IPAddress object, which are released when the
    service is deleted."""
    spec = api.post(services, service()).json["spec"]
    assert spec["clusterIP"].startswith("10.0.0.")
    assert spec["clusterIPs"] == [spec["clusterIP"]]
    assert (spec["ipFamilies"], spec["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")
    parent = {"resource": "services", "namespace": namespace, "name": "s"}
    assert addresses(api)[spec["clusterIP"]] == parent
    api.delete(f"{services}/s")
    assert spec["clusterIP"] not in addresses(api)


def test_static_address(api, services):
    """A requested address is allocated once and must lie in the range."""
    assert api.post(services, service("a", clusterIP="10.0.0.3")).status == 201
    response = api.post(services, service("b", clusterIP="10.0.0.3"))
    assert response.status == 422
    assert response.message == (
        'Service "b" is invalid: spec.clusterIPs: Invalid value: ["10.0.0.3"]: failed to allocate '
        "IP 10.0.0.3: provided IP is already allocated"
    )
    for address in ("10.1.0.3", "10.0.0.0", "10.0.0.255"):
        response = api.post(services, service("b", clusterIP=address))
        assert response.message.endswith(
            f"the provided IP ({address}) is not in the valid range. The range of valid IPs is "
            "10.0.0.0/24"
        )
    api.delete(f"{services}/a")
    assert api.post(services, service("b", clusterIP="10.0.0.3")).status == 201


def test_no_address(api, services):
    """Headless and ExternalName services get no address."""
    assert api.post(services, service("h", clusterIP="None")).json["spec"]["clusterIPs"] == ["None"]
    spec = api.post(services, service("e", type="ExternalName", externalName="a.b")).json["spec"]
    assert "clusterIP" not in spec
    assert "ipFamilies" not in spec


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"ipFamilyPolicy": "RequireDualStack"},
            'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not '
            "configured for dual-stack services",
        ),
        (
            {"ipFamilies": ["IPv6"]},
            'spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster',
        ),
        (
            {"clusterIPs": ["10.0.0.9"]},
            'spec.clusterIPs: Invalid value: ["10.0.0.9"]: must be empty when `clusterIP` is not '
            "specified",
        ),
        (
            {"clusterIP": "10.0.0.9", "ipFamilies": ["IPv6"]},
            'spec.clusterIPs[0]: Invalid value: "10.0.0.9": expected an IPv6 value as indicated '
            "by `ipFamilies[0]`",
        ),
        (
            {"clusterIP": "fd00::9"},
            'spec.clusterIPs[0]: Invalid value: ["fd00::9"]: IPv6 is not configured on this '
            "cluster",
        ),
    ],
)
def test_ip_families(api, services, spec, message):
    """IP families and addresses must match each other and the cluster."""
    response = api.post(services, service(**spec))
    assert response.status == 422
    assert response.message == f'Service "s" is invalid: {message}'


def test_node_ports(api, services):
    """Node ports are allocated for types that need them, kept on updates and released."""
    spec = api.post(services, service("a", type="NodePort")).json["spec"]
    port = spec["ports"][0]["nodePort"]
    assert 30000 <= port <= 32767
    updated = api.put(f"{services}/a", service("a", type="NodePort")).json["spec"]
    assert (updated["ports"][0]["nodePort"], updated["clusterIP"]) == (port, spec["clusterIP"])
    service_port = {"name": "http", "port": 80, "nodePort": port}
    response = api.post(services, service("b", type="NodePort", ports=[service_port]))
    assert response.message == (
        f'Service "b" is invalid: spec.ports[0].nodePort: Invalid value: {port}: provided port is '
        "already allocated"
    )
    plain = api.patch(f"{services}/a", {"spec": {"type": "ClusterIP"}}).json["spec"]
    assert "nodePort" not in plain["ports"][0]
    assert "externalTrafficPolicy" not in plain
    assert api.post(services, service("b", type="NodePort", ports=[service_port])).status == 201
    service_port["nodePort"] = 80
    response = api.post(services, service("c", type="NodePort", ports=[service_port]))
    assert response.message.endswith(
        "provided port is not in the valid range. The range of valid ports is 30000-32767"
    )


def test_one_port_two_protocols(api, services):
    """A port with two protocols gets one node port."""
    ports = [{"name": n, "port": 53, "protocol": n.upper()} for n in ("tcp", "udp")]
    spec = api.post(services, service(type="NodePort", ports=ports)).json["spec"]
    assert len({port["nodePort"] for port in spec["ports"]}) == 1


def test_load_balancer(api, services):
    """A load balancer with externalTrafficPolicy Local has a health check node port, which is
    released when the policy changes; without allocateLoadBalancerNodePorts it has no node ports."""
    spec = api.post(services, service("a", type="LoadBalancer", externalTrafficPolicy="Local"))
    port = spec.json["spec"]["healthCheckNodePort"]
    assert port >= 30000
    assert api.patch(f"{services}/a", {"spec": {"externalTrafficPolicy": "Cluster"}}).status == 200
    assert "healthCheckNodePort" not in api.get(f"{services}/a").json["spec"]
    body = service("c", type="NodePort", ports=[{"port": 80, "nodePort": port}])
    assert api.post(services, body).status == 201
    body = service("b", type="LoadBalancer", allocateLoadBalancerNodePorts=False)
    assert "nodePort" not in api.post(services, body).json["spec"]["ports"][0]


@pytest.mark.parametrize("policy", ["SingleStack", "PreferDualStack"])
def test_type_changes(api, services, policy):
    """A service that becomes ExternalName releases its address and has no internalTrafficPolicy,
    and gets both when it changes back."""
    address = api.post(services, service(ipFamilyPolicy=policy)).json["spec"]["clusterIP"]
    change = {"spec": {"type": "ExternalName", "externalName": "a.b"}}
    changed = api.patch(f"{services}/s", change).json["spec"]
    assert not {"clusterIP", "internalTrafficPolicy"} & changed.keys()
    assert address not in addresses(api)
    change = {"spec": {"type": "ClusterIP", "externalName": None}}
    back = api.patch(f"{services}/s", change).json["spec"]
    assert back["clusterIP"] in addresses(api)
    assert back["internalTrafficPolicy"] == "Cluster"


def test_ports_of_external_services(api, services):
    """An ExternalName service does not own the node ports it names: a port of another service is
    refused, and deleting the ExternalName service releases no port."""
    body = service("a", type="NodePort", ports=[{"port": 80, "nodePort": 30777}])
    assert api.post(services, body).status == 201
    for name in ("b", "c"):
        ports = [{"port": 80, "nodePort": 30777}]
        body = service(name, type="ExternalName", externalName="a.b", ports=ports)
        assert api.post(services, body).json["spec"]["ports"][0]["nodePort"] == 30777
    change = {"spec": {"type": "NodePort", "externalName": None}}
    response = api.patch(f"{services}/b", change)
    assert response.message.endswith("Invalid value: 30777: provided port is already allocated")
    api.delete(f"{services}/c")
    assert api.patch(f"{services}/b", change).status == 422


def test_failed_requests_allocate_nothing(api, services):
    """Dry runs and invalid services allocate nothing."""
    eventually(
        lambda: api.get(KUBERNETES), lambda response: response.status == 200
    )  # allocates an address too
    addresses_before = addresses(api)
    dry = api.post(f"{services}?dryRun=All", service("d", type="NodePort")).json["spec"]
    assert dry["clusterIP"]
    assert dry["ports"][0]["nodePort"]
    assert api.post(services, service("b", sessionAffinity="x")).status == 422
    body = service("c", type="NodePort", ports=[{"port": 80, "nodePort": 1}])
    assert api.post(services, body).status == 422
    assert addresses(api).keys() == addresses_before.keys()


def test_concurrent_services(api, services):
    """Services created concurrently get distinct addresses and node ports."""

    def make(number):
        return api.post(services, service(f"s{number}", type="NodePort")).json["spec"]

    with ThreadPoolExecutor(8) as pool:
        specs = list(pool.map(make, range(40)))
    assert len({spec["clusterIP"] for spec in specs}) == 40
    assert len({spec["ports"][0]["nodePort"] for spec in specs}) == 40
    assert api.delete(services).status == 200
    assert not {spec["clusterIP"] for spec in specs} & addresses(api).keys()


CHANGES = [
    {"type": "ClusterIP"}, {"type": "NodePort"}, {"type": "LoadBalancer"},
    {"type": "ExternalName", "externalName": "a.b"}, {"type": "ClusterIP", "externalName": None},
    {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}, {"externalTrafficPolicy": "Local"},
    {"externalTrafficPolicy": "Cluster"}, {"allocateLoadBalancerNodePorts": False},
    {"ipFamilyPolicy": "SingleStack"}, {"ipFamilyPolicy": "PreferDualStack"},
    {"ipFamilyPolicy": "RequireDualStack"}, {"clusterIP": "None"}, {"clusterIP": "10.0.0.9"},
    {"ports": [{"port": 80, "nodePort": 30001}]}, {"ports": [{"port": 80, "nodePort": 30002}]},
    {"ports": [{"port": 81, "name": "a"}, {"port": 82, "name": "b"}]}, {"ports": None},
    {"ports": [{"port": 53, "name": "a"}, {"port": 53, "name": "b", "protocol": "UDP"}]},
    {"healthCheckNodePort": 30003}, {"sessionAffinity": "x"},
]  # fmt: skip
"""Changes of a service's spec; some are invalid for some types."""


@pytest.mark.parametrize("seed", [1, 2])
def test_allocations_match_services(make_server, seed):
    """After random changes, the allocated addresses and ports are exactly those of the services."""
    own = make_server(service_cluster_ip_range="10.0.0.0/24,fd00::/120")
    services, chance = "/api/v1/namespaces/default/services", random.Random(seed)
    eventually(lambda: own.api.get(KUBERNETES), lambda response: response.status == 200)

    async def leaked():
        repair = AllocationRepair(own.running.cluster.server)
        await repair.run_once()
        return repair._previous

    statuses = set()
    for number in range(240):
        name, change = f"s{chance.randrange(5)}", chance.choice(CHANGES)
        dry = "?dryRun=All" if chance.random() < 0.1 else ""
        action = chance.random()
        if action < 0.1:
            response = own.api.delete(f"{services}/{name}{dry}")
        elif action < 0.4:
            response = own.api.post(f"{services}{dry}", service(name, **change))
        else:
            response = own.api.patch(f"{services}/{name}{dry}", {"spec": change})
        statuses.add(response.status)
        if number % 8:
            continue
        specs = [item["spec"] for item in own.api.get("/api/v1/services").json["items"]]
        cluster_ips = [ip for spec in specs for ip in spec.get("clusterIPs", ()) if ip != "None"]
        assert sorted(cluster_ips) == sorted(addresses(own.api)), (number, change)
        ports = [
            port
            for spec in specs
            if spec["type"] in ("NodePort", "LoadBalancer")
            for port in {service_port.get("nodePort") for service_port in spec["ports"]}
            | {spec.get("healthCheckNodePort")}
            if port
        ]
        assert len(ports) == len(set(ports)), (number, change)
        assert asyncio.run_coroutine_threadsafe(leaked(), own.loop).result(60) == Leaks()
    assert statuses == {200, 201, 404, 409, 422}


KUBERNETES = "/api/v1/namespaces/default/services/kubernetes"


def test_kubernetes(api):
    """The service `kubernetes` has the first address of the range and endpoints; it is created
    again after its deletion."""
    response = eventually(lambda: api.get(KUBERNETES), lambda response_: response_.status == 200)
    assert response.json["spec"]["clusterIP"] == "10.0.0.1"
    assert response.json["spec"]["ports"][0]["port"] == 443
    cidr = eventually(
        lambda: api.get("/apis/networking.k8s.io/v1/servicecidrs/kubernetes"),
        lambda response_: response_.status == 200 and "conditions" in response_.json["status"],
    ).json
    assert cidr["spec"]["cidrs"] == ["10.0.0.0/24"]
    assert cidr["status"]["conditions"][0]["status"] == "True"
    endpoints, endpoint_slice = (
        eventually(lambda path=path: api.get(path), lambda response_: response_.status == 200).json
        for path in (
            KUBERNETES.replace("services", "endpoints"),
            "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes",
        )
    )
    assert endpoints["subsets"][0]["ports"][0]["port"] == api.port
    (endpoint,) = endpoint_slice["endpoints"]
    assert endpoint["addresses"] == [endpoints["subsets"][0]["addresses"][0]["ip"]]
    uid = response.json["metadata"]["uid"]
    api.delete(KUBERNETES)
    recreated = eventually(
        lambda: api.get(KUBERNETES),
        lambda response_: response_.status == 200 and response_.json["metadata"]["uid"] != uid,
    )
    assert recreated.json["spec"]["clusterIP"] == "10.0.0.1"


def test_dual_stack_and_repair():
    """A dual-stack service gets an address of each family. An allocation without a service is
    released after two repair runs."""

    async def run():
        ranges = "10.9.0.0/28,fd00::/112"
        config = Config.of(secure_port=None, insecure_port=0, service_cluster_ip_range=ranges)
        async with serve(config) as running:
            server = running.cluster.server
            services = server.stores.by_name(GroupVersion("", "v1"), "services")
            allocation = AllocationRepair(server)._allocation
            tree = {
                "kind": "Service", "apiVersion": "v1",
                "metadata": {"name": "s", "namespace": "default"},
                "spec": {
                    "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
                    "type": "NodePort", "sessionAffinity": "None",
                    "externalTrafficPolicy": "Cluster", "internalTrafficPolicy": "Cluster",
                    "ipFamilyPolicy": "PreferDualStack",
                },
            }  # fmt: skip
            spec = (await services.create(tree)).entry.tree()["spec"]
            assert spec["ipFamilies"] == ["IPv4", "IPv6"]
            assert [":" in address for address in spec["clusterIPs"]] == [False, True]
            leaked = await allocation.addresses.allocate_next("IPv4", tree, dry_run=False)
            await allocation.ports.update(lambda ports: ports.allocate(30001))
            repair = AllocationRepair(server)
            used = []
            for _ in range(2):
                await repair.run_once()
                await allocation.ports.update(
                    lambda ports: used.append(ports.allocated_ports()), dry_run=True
                )
                used.append(await allocation.addresses._allocated_names())
            port = spec["ports"][0]["nodePort"]
            assert used[0] == {port, 30001}
            assert leaked in used[1]
            assert used[2] == {port}
            assert leaked not in used[3]
            assert set(spec["clusterIPs"]) <= used[3]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("10.0.0.0/30", 2), ("10.0.0.0/29", 6), ("10.0.0.0/28", 14), ("10.0.0.0/27", 30),
        ("10.0.0.0/24", 254), ("10.0.0.0/20", 4094), ("fd00::/126", 3), ("fd00::/124", 15),
        ("fd00::/123", 31), ("fd00::/120", 255),
    ],
)  # fmt: skip
def test_candidate_addresses(text, count):
    """Each address of a range is a candidate once, for ranges of any size."""
    (network,) = service_ranges(text)
    candidates = list(candidate_addresses(network, random.Random(7)))
    assert len(candidates) == len(set(candidates)) == count
    assert all(has_address(network, address) for address in candidates)


def test_retries_add_no_timers(caplog):
    """While the store is unavailable, the loop tries again each second, and its timers do not
    accumulate."""
    caplog.set_level(logging.INFO)

    def count_failures():
        return sum("kubernetes-service: " in record.getMessage() for record in caplog.records)

    async def run(member):
        clock = ManualClock()
        config = Config.of(storage=f"etcd:{member.url}", secure_port=None, insecure_port=None)
        timers = []
        async with serve(config, Parts(clock=clock, controllers=())):
            member.kill()
            for number in range(1, 6):
                clock.advance(10 if number == 1 else 1)
                while count_failures() < number:  # noqa: ASYNC110 - it has no event
                    await asyncio.sleep(0.01)
                timers.append(sum(not timer.cancelled for timer in clock.timers))
            assert max(timers[1:]) <= timers[0]

    with running_member() as member:
        asyncio.run(run(member))
