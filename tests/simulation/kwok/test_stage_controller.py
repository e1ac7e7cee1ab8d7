"""A server whose objects live as Stages say."""

from __future__ import annotations

import logging

import pytest

from kapiserver.apiserver.user import APISERVER
from kapiserver.testing.server import TestServer
from tests.simulation.kwok import published
from tests.simulation.kwok.stage_objects import expressions, stage, status_patch

pytestmark = pytest.mark.anyio

RUNNING = "phase: Running\nconditions: [{type: Ready, status: 'True'}]"
NOT_RUNNING = expressions((".status.phase", "NotIn", "Running"))


@pytest.fixture
async def server():
    async with TestServer(simulate=True, seed=1) as server:
        await server.settle_async()
        yield server


def objects(server, name, version="v1", namespace="default"):
    client = server.running.cluster.server.client(APISERVER, authorize=False)
    return client.resource(version, name, namespace=namespace)


def stages(server):
    return objects(server, "stages", "kwok.x-k8s.io/v1alpha1", "")


def config_maps(server):
    return objects(server, "configmaps")


async def create(server, *specs):
    for spec in specs:
        await stages(server).create(spec)
    await server.settle_async()


def pod(name="web", **metadata):
    spec = {"containers": [{"name": "app", "image": "nginx"}]}
    return {"metadata": {"name": name, **metadata}, "spec": spec}


async def run(server, obj=None):
    """Create a pod, and return it when everything is settled."""
    created = await objects(server, "pods").create(obj or pod())
    await server.settle_async()
    return await objects(server, "pods").get(created["metadata"]["name"])


async def phase(server, name="web"):
    return (await objects(server, "pods").get(name))["status"]["phase"]


async def events(server, component="kwok"):
    found = (await objects(server, "events").list())["items"]
    return [
        (each["type"], each["reason"], each["message"], each["involvedObject"]["name"])
        for each in found
        if each["source"]["component"] == component
    ]


async def condition(server, name):
    """The status, reason and message of the condition Compiled of a Stage."""
    await server.settle_async()
    ((found),) = (await stages(server).get(name))["status"]["conditions"]
    assert found["type"] == "Compiled"
    return found["status"], found["reason"], found["message"]


async def test_pods(server):
    """With a Stage for pods, their kubelet leaves them alone; without one it goes on."""
    await create(server, stage("run", selector=NOT_RUNNING, next=status_patch(RUNNING)))
    status = (await run(server))["status"]
    assert status["phase"] == "Running"
    assert "containerStatuses" not in status
    assert {each["type"] for each in status["conditions"]} == {"PodScheduled", "Ready"}
    await stages(server).delete("run")
    await server.settle_async()
    status = (await objects(server, "pods").get("web"))["status"]
    assert [each["name"] for each in status["containerStatuses"]] == ["app"]


async def test_pods_of_other_nodes(server):
    """Pods without a node, and those of nodes that are not simulated, stay as they are, until the
    kubelet of their node is."""
    nodes = objects(server, "nodes", namespace="")
    await nodes.create({"metadata": {"name": "real"}})
    await create(server, stage("run", selector=NOT_RUNNING, next=status_patch(RUNNING)))
    bound, waiting = pod("bound"), pod("waiting")
    bound["spec"]["nodeName"], waiting["spec"]["schedulerName"] = "real", "other"
    await run(server, bound)
    await run(server, waiting)
    assert [await phase(server, name) for name in ("bound", "waiting")] == ["Pending", "Pending"]
    await nodes.patch("real", {"metadata": {"annotations": {"kwok.x-k8s.io/node": "fake"}}})
    await server.settle_async()
    assert await phase(server, "bound") == "Running"


async def test_fake_node(server):
    """A node with kwok's annotation is simulated without any Stage."""
    nodes = objects(server, "nodes", namespace="")
    annotations = {"kwok.x-k8s.io/node": "fake"}
    await nodes.create({"metadata": {"name": "kwok-node-0", "annotations": annotations}})
    await server.settle_async()
    node = await nodes.get("kwok-node-0")
    assert node["status"]["conditions"][-1]["reason"] == "KubeletReady"
    assert node["spec"]["podCIDR"]


async def test_nodes(server):
    """With a Stage for nodes, the simulator gives them a network and no status."""
    template = "phase: Running\naddresses: [{type: InternalIP, address: {{ NodeIP }}}]"
    selector = expressions((".status.phase", "DoesNotExist"), (".metadata.name", "In", "own"))
    await create(server, stage("run", "Node", selector=selector, next=status_patch(template)))
    nodes = objects(server, "nodes", namespace="")
    annotations = {"kwok.x-k8s.io/node": "fake"}
    await nodes.create({"metadata": {"name": "own", "annotations": annotations}})
    await nodes.create({"metadata": {"name": "real"}})
    await server.settle_async()
    own = await nodes.get("own")
    assert own["spec"]["podCIDR"].startswith("10.128.")
    assert own["status"]["phase"] == "Running"
    assert own["status"]["addresses"][0]["address"].startswith("172.18.")
    assert not own["status"].get("conditions")
    assert "phase" not in (await nodes.get("real"))["status"]


async def test_delay(server):
    """A stage waits on the server's clock; a change of the object begins the wait again."""
    delay = {"durationMilliseconds": 10_000}
    await create(
        server, stage("run", selector=NOT_RUNNING, delay=delay, next=status_patch(RUNNING))
    )
    await run(server)
    await server.clock.advance_async("9s")
    assert await phase(server) == "Pending"
    await objects(server, "pods").patch("web", {"metadata": {"labels": {"a": "b"}}})
    await server.clock.advance_async("9s")
    assert await phase(server) == "Pending"
    await server.clock.advance_async("1s")
    assert await phase(server) == "Running"


async def test_random_delay(server):
    """Random delays follow from the seed of the server."""
    delay = {"durationMilliseconds": 1000, "jitterDurationMilliseconds": 5000}
    await create(
        server, stage("run", selector=NOT_RUNNING, delay=delay, next=status_patch(RUNNING))
    )
    for number in range(8):
        await run(server, pod(f"web-{number}"))
    counts = []
    for _ in range(6):
        await server.clock.advance_async("1s")
        items = (await objects(server, "pods").list())["items"]
        counts.append(sum(each["status"]["phase"] == "Running" for each in items))
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (0, 8)
    assert len(set(counts)) > 2


async def test_changed_stage(server):
    """The objects of a kind are looked at again when a Stage changes."""
    never = expressions((".metadata.name", "In", "other"))
    await create(server, stage("run", selector=never, next=status_patch(RUNNING)))
    await run(server)
    assert await phase(server) == "Pending"
    await stages(server).patch("run", {"spec": {"selector": NOT_RUNNING}})
    await server.settle_async()
    assert await phase(server) == "Running"


async def test_deletion(server):
    """A stage deletes a pod at once, and a pod that somebody deletes goes when a stage says so."""
    gone = expressions((".metadata.deletionTimestamp", "Exists"))
    delay = {"durationMilliseconds": 5000}
    await create(
        server,
        stage("run", selector=NOT_RUNNING, next=status_patch(RUNNING)),
        stage("delete", selector=gone, delay=delay, next={"delete": True}),
    )
    await run(server)
    await objects(server, "pods").delete("web")
    await server.settle_async()
    assert len((await objects(server, "pods").list())["items"]) == 1
    await server.clock.advance_async("5s")
    assert not (await objects(server, "pods").list())["items"]


async def test_other_kinds(server):
    """Objects of any kind: events, finalizers, patches, applied objects."""
    selector = expressions((".data.state", "In", "new"))
    applied = (
        "{apiVersion: v1, kind: Secret, metadata: {name: {{ .metadata.name }}}, "
        "stringData: {from: {{ .data.state }}}}"
    )
    steps = [
        {"event": {"type": "Normal", "reason": "Started", "message": "It started."}},
        {"finalizers": {"add": [{"value": "a.example/b"}]}},
        {"apply": {"template": applied}},
        {"patch": {"root": "data", "template": "{state: old}"}},
    ]
    await create(server, stage("age", "ConfigMap", selector=selector, steps=steps))
    await config_maps(server).create({"metadata": {"name": "one"}, "data": {"state": "new"}})
    await server.settle_async()
    one = await config_maps(server).get("one")
    assert one["data"] == {"state": "old"}
    assert one["metadata"]["finalizers"] == ["a.example/b"]
    assert (await objects(server, "secrets").get("one"))["data"] == {"from": "bmV3"}
    assert await events(server) == [("Normal", "Started", "It started.", "one")]
    await config_maps(server).patch("one", {"data": {"state": "new"}})
    await server.settle_async()
    assert (await config_maps(server).get("one"))["data"] == {"state": "old"}


async def test_stages_that_go_and_return(server):
    """Without a Stage nothing happens to the objects of a kind, until it has one again."""
    steps = [{"patch": {"root": "data", "template": "{state: old}"}}]
    selector = expressions((".data.state", "In", "new"))
    age = stage("age", "ConfigMap", selector=selector, steps=steps)

    async def state(name):
        await server.settle_async()
        return (await config_maps(server).get(name))["data"]["state"]

    new = {"state": "new"}
    await create(server, age)
    await config_maps(server).create({"metadata": {"name": "one"}, "data": new})
    assert await state("one") == "old"
    await stages(server).delete("age")
    await config_maps(server).create({"metadata": {"name": "two"}, "data": new})
    await config_maps(server).patch("one", {"data": new})
    assert [await state("one"), await state("two")] == ["new", "new"]
    await create(server, age)
    assert [await state("one"), await state("two")] == ["old", "old"]


async def test_custom_resource(server):
    """A kind that is defined after its Stage."""
    spec = stage(
        "ready", "Widget", "example.com/v1", expressions((".status.ready", "DoesNotExist")),
        next=status_patch("ready: true"),
    )  # fmt: skip
    await create(server, spec)
    assert (await condition(server, "ready"))[1] == "KindNotServed"
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }  # fmt: skip
    definition = {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "names": names, "scope": "Namespaced", "versions": [version],
        },
    }  # fmt: skip
    await objects(server, "customresourcedefinitions", "apiextensions.k8s.io/v1", "").create(
        definition
    )
    await server.settle_async()
    assert await condition(server, "ready") == ("True", "Compiled", "")
    widgets = objects(server, "widgets", "example.com/v1")
    await widgets.create(
        {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    )
    await server.settle_async()
    assert (await widgets.get("w"))["status"] == {"ready": True}


async def test_uncompilable(server, caplog):
    """A Stage that does not compile is reported, and stops nobody else."""
    bad = stage("bad", selector=expressions((".a[", "Exists")), next=status_patch(RUNNING))
    problem = "jq: .a[: unexpected 'end of the expression' at position 4"
    with caplog.at_level(logging.WARNING):
        await create(server, bad)
        assert await condition(server, "bad") == ("False", "CompileFailed", problem)
    assert f"stages bad: {problem}" in caplog.messages
    assert await events(server) == [("Warning", "CompileFailed", problem, "bad")]
    assert (await run(server))["status"]["containerStatuses"]  # by the simulated kubelet
    await create(server, stage("good", selector=NOT_RUNNING, next=status_patch(RUNNING)))
    assert await condition(server, "good") == ("True", "Compiled", "")
    assert (await run(server, pod("two")))["status"]["phase"] == "Running"
    await stages(server).patch("bad", {"spec": {"selector": NOT_RUNNING}})
    assert await condition(server, "bad") == ("True", "Compiled", "")


async def test_failing_stage(server):
    """A template that fails for one object, and a patch that is refused, are reported in events;
    other objects go on."""
    template = "phase: {{ .metadata.annotations.phase }}"
    await create(server, stage("run", selector=NOT_RUNNING, next=status_patch(template)))
    for name, noted in (("a", None), ("b", {"phase": "[1]"}), ("c", {"phase": "Running"})):
        await run(server, pod(name, annotations=noted))
    assert await phase(server, "c") == "Running"
    found = {each[3]: each[:3] for each in await events(server)}
    assert found.keys() == {"a", "b"}
    assert {each[:2] for each in found.values()} == {("Warning", "StageFailed")}
    assert "nil pointer evaluating interface {}.phase" in found["a"][2]


async def test_impersonation(server):
    """A patch is made with the rights of the user that the stage names."""
    steps = [{"patch": {"template": "{data: {a: b}}", "impersonation": {"username": "eve"}}}]
    selector = expressions((".metadata.name", "In", "one"))
    async with TestServer(simulate=True, authorization_mode=["RBAC"]) as limited:
        await limited.settle_async()
        await create(limited, stage("patch", "ConfigMap", selector=selector, steps=steps))
        await config_maps(limited).create({"metadata": {"name": "one"}})
        await limited.settle_async()
        ((_, _, message, _),) = await events(limited)
        assert 'User "eve" cannot patch resource "configmaps"' in message
        assert "data" not in await config_maps(limited).get("one")


async def test_circle(server):
    """Stages that lead to each other without a delay leave the server time for others."""

    def turn(name, before, after):
        selector = expressions((".data.state", "In", before))
        steps = [{"patch": {"root": "data", "template": f"{{state: {after}}}"}}]
        return stage(name, "ConfigMap", selector=selector, steps=steps)

    await create(server, turn("tick", "tock", "tick"), turn("tock", "tick", "tock"))
    created = await config_maps(server).create(
        {"metadata": {"name": "clock"}, "data": {"state": "tick"}}
    )
    await server.settle_async()
    first = await config_maps(server).get("clock")
    await server.clock.advance_async("1s")
    second = await config_maps(server).get("clock")
    generations = [int(each["metadata"]["resourceVersion"]) for each in (created, first, second)]
    assert 5 < generations[1] - generations[0] < 30
    assert 5 < generations[2] - generations[1] < 60


async def test_reset(server):
    """A reset forgets Stages; the definitions of kwok's kinds are there again."""
    async with server.client() as client:  # its first write waits for the state after the start
        spec = stage("run", selector=NOT_RUNNING, next=status_patch(RUNNING))
        await client.resource("kwok.x-k8s.io/v1alpha1", "stages").create(spec)
    assert "containerStatuses" not in (await run(server))["status"]
    await server.reset_async()
    await server.settle_async()
    assert not (await stages(server).list())["items"]
    assert (await run(server))["status"]["containerStatuses"]


@pytest.mark.skipif(published.folder() is None, reason=f"{published.MODULE} cannot be downloaded")
async def test_published_sets(server):
    """A Deployment becomes available on kwok's nodes by kwok's Stages, and a Job completes."""
    await create(server, *published.stages("pod/fast"), *published.stages("node/fast"))
    nodes = objects(server, "nodes", namespace="")
    await nodes.create(
        {"metadata": {"name": "kwok-0", "annotations": {"kwok.x-k8s.io/node": "fake"}}}
    )
    await server.settle_async()
    node = await nodes.get("kwok-0")
    assert node["status"]["phase"] == "Running"
    assert node["status"]["nodeInfo"]["kubeletVersion"].startswith("kwok-v1.")
    labels, deployments = {"app": "web"}, objects(server, "deployments", "apps/v1")
    template = {"metadata": {"labels": labels}, "spec": pod()["spec"]}
    spec = {"replicas": 3, "selector": {"matchLabels": labels}, "template": template}
    await deployments.create({"metadata": {"name": "web"}, "spec": spec})
    jobs = objects(server, "jobs", "batch/v1")
    job = {"template": {"spec": pod()["spec"] | {"restartPolicy": "Never"}}}
    await jobs.create({"metadata": {"name": "work"}, "spec": job})
    await server.settle_async()
    assert (await deployments.get("web"))["status"]["availableReplicas"] == 3
    assert (await jobs.get("work"))["status"]["succeeded"] == 1
    addresses = [
        each["status"]["podIP"] for each in (await objects(server, "pods").list())["items"]
    ]
    assert len(set(addresses)) == 4
    await deployments.delete("web")
    await server.settle_async()
    assert len((await objects(server, "pods").list())["items"]) == 1
