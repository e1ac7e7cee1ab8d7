"""The pytest plugin in runs of its own: async plugins, workers of xdist, runs without it."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

pytest_plugins = ["pytester"]

FAST = "-p no:hypothesispytest"
"""Without hypothesis: pytest would rewrite the assertions of all of its modules, which takes longer
than the rest."""
WITH_ASYNCIO_PLUGIN = f"""
[pytest]
addopts = {FAST}
asyncio_default_fixture_loop_scope = function
"""

ANYIO = """
import pytest

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param


async def test_on_any_loop(kube_apiserver, kube_client):
    async with kube_client.httpx_async() as client:
        response = await client.get("/api/v1/namespaces/default")
        assert response.json()["metadata"]["name"] == "default"


@pytest.mark.parametrize("number", range(2))
async def test_session(kube_session, kube_client, number):
    async with kube_client.httpx_async() as client:
        url = f"/api/v1/namespaces/{kube_session.name}/configmaps"
        response = await client.post(url, json={"metadata": {"name": "same"}})
        assert response.status_code == 201
"""

ASYNCIO = """
import pytest
import pytest_asyncio

from kapiserver.testing import TestServer

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def own_server():
    async with TestServer() as server:
        yield server


@pytest.fixture(scope="session")
def shared():
    with TestServer() as server:
        yield server


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared_async():
    # The loop of the session does not run during a test; the server's own does.
    with TestServer() as server:
        yield server


async def test_own(own_server):
    async with own_server.client() as client:
        assert (await client.resource("v1", "namespaces").get("default"))["kind"] == "Namespace"


async def test_fixtures_of_the_session(shared, shared_async):
    for server in (shared, shared_async):
        async with server.client() as client:
            assert (await client.resource("v1", "namespaces").get("default"))["kind"]


@pytest.mark.parametrize("number", range(2))
async def test_session(kube_session, kube_client, number):
    async with kube_client.kubernetes_asyncio() as api:
        from kubernetes_asyncio import client

        core = client.CoreV1Api(api)
        body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="same"))
        await core.create_namespaced_config_map(kube_session.name, body)


@pytest.mark.filterwarnings("ignore:Kubernetes version .* is not supported:UserWarning")
async def test_kr8s(kube_client):
    async with kube_client.kr8s_asyncio() as api:
        assert (await api.version())["major"] == "1"


async def test_lightkube(kube_client):
    async with kube_client.lightkube_async() as client:
        from lightkube.resources.core_v1 import Namespace

        assert (await client.get(Namespace, "default")).metadata.name == "default"
"""

WORKERS = """
import pytest


@pytest.mark.parametrize("number", range(2))
def test_fresh(kube_apiserver, kube_client, number):
    client = kube_client.httpx()
    url = "/api/v1/namespaces/default/configmaps"
    assert client.post(url, json={"metadata": {"name": "one"}}).status_code == 201


@pytest.mark.parametrize("number", range(2))
def test_session(kube_session, kube_client, number):
    client = kube_client.httpx()
    url = f"/api/v1/namespaces/{kube_session.name}/configmaps"
    assert client.post(url, json={"metadata": {"name": "one"}}).status_code == 201
"""

UNITTEST = """
import unittest

from kapiserver.testing import KubeClients, TestNamespace, TestServer, use_kubeconfig


class Test(unittest.TestCase):
    def setUp(self):
        self.server = self.enterContext(TestServer())
        self.enterContext(use_kubeconfig(self.server.kubeconfig))

    def test(self):
        namespace = TestNamespace(self.server, "default", self.server.kubeconfig)
        with KubeClients(namespace) as clients:
            assert clients.httpx().get("/livez").text == "ok"
"""


BROKEN = """
import pytest


@pytest.fixture
def operator(kube_apiserver):
    raise RuntimeError("on purpose")


@pytest.fixture
def tenant(kube_session):
    raise RuntimeError("on purpose")


def test_operator(operator):
    pass


def test_tenant(tenant):
    pass


@pytest.mark.kapiserver("rbac")
def test_marker(kube_apiserver):
    pass
"""

OPERATOR_IN_A_FIXTURE = """
import asyncio

import kopf
import pytest


async def start():
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry)(kopf.login_with_kubeconfig)
    ready, stop = asyncio.Event(), asyncio.Event()
    operator = kopf.operator(
        registry=registry, clusterwide=True, standalone=True, ready_flag=ready, stop_flag=stop
    )
    task = asyncio.create_task(operator)
    await ready.wait()
    return task, stop


def create(client):
    return client.post("/api/v1/namespaces/default/configmaps", json={"metadata": {"name": "x"}})


def test_before(kube_session):
    pass
"""

WITH_ASYNCIO = (
    OPERATOR_IN_A_FIXTURE
    + """
import pytest_asyncio


@pytest_asyncio.fixture
async def operator(kube_apiserver, kubeconfig):
    task, stop = await start()
    yield
    stop.set()
    await task


@pytest.mark.asyncio
async def test_operator(operator, kube_client):
    async with kube_client.httpx_async() as client:
        assert (await create(client)).status_code == 201


def test_after(kube_client):
    assert create(kube_client.httpx()).status_code == 201
"""
)

WITH_ANYIO = (
    OPERATOR_IN_A_FIXTURE
    + """
@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
async def operator(kube_session, kubeconfig):
    task, stop = await start()
    yield
    task.cancel()
    await task


names = []


@pytest.mark.anyio
@pytest.mark.parametrize("number", range(2))
async def test_operator(operator, kube_session, number):
    names.append(kube_session.name)
    assert len(set(names)) == number + 1
"""
)

PROGRAMS = """
import asyncio
import os

import kopf
import pytest

REGISTRY = kopf.OperatorRegistry()


@kopf.on.create("configmaps", registry=REGISTRY)
def label(patch, memo, **_):
    patch.meta.labels["handled"] = memo.label


@pytest.fixture
def operator(kube_operator):
    kube_operator(registry=REGISTRY, memo=kopf.Memo(label="yes"))


@pytest.mark.parametrize("number", range(2))
def test_operator(operator, kube_apiserver, kube_client, number):
    path = "/api/v1/namespaces/default/configmaps"
    assert kube_client.httpx().post(path, json={"metadata": {"name": "x"}}).status_code == 201
    kube_apiserver.objects.wait_for("cm/x", "jsonpath={.metadata.labels.handled}=yes")


@pytest.mark.asyncio
async def test_operator_beside_an_async_test(operator, kube_session, kube_client):
    server, name = kube_session.server, kube_session.name
    async with kube_client.httpx_async() as client:
        path = f"/api/v1/namespaces/{name}/configmaps"
        assert (await client.post(path, json={"metadata": {"name": "x"}})).status_code == 201
    condition = "jsonpath={.metadata.labels.handled}=yes"
    await server.objects.wait_for_async("cm/x", condition, namespace=name)


def test_operator_that_fails(kube_operator):
    registry = kopf.OperatorRegistry()

    @kopf.on.startup(registry=registry)
    def fail(**_):
        raise kopf.PermanentError("on purpose")

    with pytest.raises(Exception, match="handlers failed"):
        kube_operator(registry=registry)


async def rename(client_of, old, new):
    async with client_of() as client:
        path = "/api/v1/namespaces/default/configmaps"
        while (await client.get(f"{path}/{old}")).status_code != 200:
            await asyncio.sleep(0.01)
        await client.post(path, json={"metadata": {"name": new}})
    await asyncio.Event().wait()


def test_coroutine(kube_background, kube_apiserver, kube_client):
    kube_background(rename, kube_client.httpx_async, old="a", new="b")
    path = "/api/v1/namespaces/default/configmaps"
    assert kube_client.httpx().post(path, json={"metadata": {"name": "a"}}).status_code == 201
    kube_apiserver.objects.wait_for("cm/b", "create")
    with pytest.raises(TypeError, match="takes a coroutine function, not None"):
        kube_background(None)
    with pytest.raises(TypeError, match="print is not a coroutine function"):
        kube_background(print)


async def fail():
    raise OSError("the coroutine fails")


def test_coroutine_that_fails(kube_background):
    kube_background(fail)
"""

NOT_REWRITTEN = """
def test(kube_apiserver):
    import kapiserver.app
    assert "assertion" not in type(kapiserver.app.__loader__).__module__
"""


@pytest.fixture
def run(pytester: pytest.Pytester) -> pytest.Pytester:
    """A directory whose tests run in a process of their own, in which warnings are errors."""
    pytester.makeini(f"[pytest]\naddopts = -W error --strict-markers -p no:asyncio {FAST}")
    return pytester


def test_one_process(run: pytest.Pytester) -> None:
    """Async tests of anyio's plugin use the fixtures, on asyncio and on trio. unittest uses the
    server as a context manager. Pytest does not rewrite the assertions of the server's modules."""
    run.makepyfile(test_anyio=ANYIO, test_unittest=UNITTEST, test_not_rewritten=NOT_REWRITTEN)
    result = run.runpytest_subprocess("-v", timeout=300)
    result.assert_outcomes(passed=8)
    for name, count in (("test_anyio", 6), ("test_unittest", 1), ("test_not_rewritten", 1)):
        assert len(re.findall(rf"^{name}\.py::.* PASSED", str(result.stdout), re.M)) == count


def test_pytest_asyncio(run: pytest.Pytester) -> None:
    """Async tests and fixtures use the server; a fixture of the session does not hang."""
    run.makeini(WITH_ASYNCIO_PLUGIN)
    run.makepyfile(ASYNCIO)
    run.runpytest_subprocess("-W", "error", timeout=300).assert_outcomes(passed=6)


def test_broken_fixtures(run: pytest.Pytester) -> None:
    """The report of a fixture that fails has the requests of its server too. A marker without
    names of settings is an error."""
    run.makepyfile(BROKEN)
    result = run.runpytest_subprocess(timeout=300)
    result.assert_outcomes(errors=3)
    output = str(result.stdout)
    assert len(re.findall(r"^The requests, .*: kapiserver replay /", output, re.M)) == 2
    assert "the marker kapiserver takes settings by name" in output


def test_operator_in_an_async_fixture(run: pytest.Pytester) -> None:
    """kopf cancels the end of an async fixture. The report says so, and the next tests have servers
    and namespaces of their own."""
    run.makeini(WITH_ASYNCIO_PLUGIN)
    run.makepyfile(test_asyncio=WITH_ASYNCIO, test_anyio=WITH_ANYIO)
    result = run.runpytest_subprocess(timeout=300)
    result.assert_outcomes(passed=6, errors=3)
    message = (
        "the end of the async fixture operator was cancelled. Does it run kopf.operator()? *"
        " Run the operator with the fixture kube_operator, *"
    )
    result.stdout.fnmatch_lines([message] * 3)


def test_programs(run: pytest.Pytester) -> None:
    """kube_operator and kube_background run an operator and a coroutine beside synchronous and
    async tests. The error of a coroutine is that of its test's teardown."""
    run.makeini(WITH_ASYNCIO_PLUGIN)
    run.makepyfile(PROGRAMS)
    result = run.runpytest_subprocess("-v", timeout=300)
    result.assert_outcomes(passed=6, errors=1)
    result.stdout.fnmatch_lines(
        ["*ERROR at teardown of test_coroutine_that_fails*", "*OSError: the coroutine fails*"]
    )


@pytest.mark.slow
def test_workers(run: pytest.Pytester) -> None:
    """Each worker of xdist has servers of its own."""
    run.makepyfile(WORKERS)
    run.runpytest_subprocess("-n", "2", timeout=300).assert_outcomes(passed=4)


def test_marker_is_registered(run: pytest.Pytester) -> None:
    """`pytest --markers` and `pytest --fixtures` explain the plugin."""
    markers = run.runpytest_subprocess("--markers", timeout=300)
    markers.stdout.fnmatch_lines(["@pytest.mark.kapiserver(*settings): settings of *"])
    fixtures = run.runpytest_subprocess("--fixtures", timeout=300)
    for name in (
        "kube_apiserver",
        "kube_session",
        "kubeconfig",
        "kube_client",
        "kube_crds",
        "kube_operator",
        "kube_background",
        "kube_user",
        "kube_service_account",
        "kube_webhook",
    ):
        fixtures.stdout.fnmatch_lines([f"{name} -- *"])


def test_plugin_imports_no_server() -> None:
    """A run of pytest that uses no fixture of the plugin does not pay for the server."""
    code = (
        "import sys, kapiserver.testing.pytest_plugin\n"
        "print(*sorted(name for name in sys.modules if name.startswith('kapiserver')))"
    )
    loaded = subprocess.check_output([sys.executable, "-W", "error", "-c", code], text=True)
    assert loaded.split() == [
        "kapiserver",
        "kapiserver.testing",
        "kapiserver.testing.pytest_plugin",
    ]
