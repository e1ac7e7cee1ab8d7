"""The pytest plugin: fixtures for test servers and the marker `kapiserver`.

Pytest loads this module in each run in which kapiserver is installed, so it imports the server only
when a fixture needs it. No fixture is async: servers run on threads of their own, so that the
fixtures work with pytest-asyncio, anyio, trio and synchronous tests alike.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kapiserver.api.types import Tree
    from kapiserver.testing.fixtures.clients import KubeClients
    from kapiserver.testing.fixtures.clusters import TestCluster, TestClusters
    from kapiserver.testing.fixtures.existing_cluster import ExistingCluster
    from kapiserver.testing.fixtures.namespace import TestNamespace
    from kapiserver.testing.fixtures.users import TestUser, Users
    from kapiserver.testing.fixtures.webhooks import Webhooks
    from kapiserver.testing.server import TestServer

pytest_plugins = ("kapiserver.exploring.marked.pytest_plugin",)
"""The plugin of the mark kube_explore: above this package, so it is named, not imported."""
MARKER = "kapiserver"
_TEMPORARY = pytest.StashKey[pytest.TempPathFactory]()
_SERVERS = pytest.StashKey[list["TestServer"]]()
"""The servers that a test's fixtures started, directly or through other fixtures."""
CLUSTER_OPTION = "--kapiserver-cluster"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("kapiserver", "test servers")
    group.addoption(
        CLUSTER_OPTION,
        metavar="KUBECONFIG",
        type=Path,
        help="Run tests in fresh namespaces of this cluster, such as one of kind, instead of test "
        "servers. Tests that use the fixture kube_apiserver are skipped.",
    )
    group.addoption(
        "--kapiserver-update-snapshots",
        action="store_true",
        help="Write the files that assert_matches_snapshot compares with, instead of comparing.",
    )
    group.addoption(
        "--kapiserver-record",
        metavar="DIR",
        help="Directory for the recordings of the API servers of failed tests, for `kapiserver "
        "replay`. Default: pytest's temporary directory.",
    )


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Load the modules of kapiserver as they are. Pytest would rewrite their assertions, as those
    of every package with a plugin. That takes long, and raises SystemError in CPython 3.11 if two
    threads do it at the same time (python/cpython#106905)."""
    rewrite_hook = early_config.pluginmanager.rewrite_hook
    getattr(rewrite_hook, "_must_rewrite", set()).discard("kapiserver")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(**settings): settings of the test's API server, as of kapiserver.testing."
        "TestServer: rbac=False, controllers=[...], feature_gates={...}",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
    call: pytest.CallInfo[None],  # noqa: ARG001 - an argument of the hook
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the requests of the API servers to the report of a test that failed, or whose fixtures
    failed, and record them."""
    report = yield
    has_servers = "kapiserver.testing.server" in sys.modules
    if report.when in ("setup", "call") and report.failed and has_servers:
        from kapiserver.testing.fixtures.failure_reports import report_failure

        servers = item.stash.get(_SERVERS, [])
        temporary = item.config.stash.get(_TEMPORARY, None)
        folder = item.config.getoption("--kapiserver-record")
        if folder is not None:
            report_failure(item, report, servers, Path(folder))
        elif temporary is not None:
            report_failure(item, report, servers, temporary.getbasetemp() / "kapiserver")
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, None, None]:
    """Finish the fixtures of a test whose teardown was cancelled: pytest stops at a CancelledError,
    and would give the server of the test to the next ones."""
    try:
        return (yield)
    except Exception:
        raise
    except BaseException as error:
        if "kapiserver.testing.server" not in sys.modules:
            raise
        from kapiserver.testing.fixtures.cancelled_fixtures import finish_teardown, is_cancellation

        if not is_cancellation(error):
            raise
        finish_teardown(item, nextitem)


@pytest.fixture(scope="session")
def _kube_recordings(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Keeps the directory for recordings, for the report of a failed test."""
    request.config.stash[_TEMPORARY] = tmp_path_factory


@pytest.fixture(scope="session")
def kube_settings() -> Mapping[str, Any]:
    """Settings of all test servers, `{}`. Override the fixture in a conftest.py; the marker
    `kapiserver` adds the settings of one test."""
    return {}


@pytest.fixture
def kube_apiserver(
    request: pytest.FixtureRequest,
    kube_settings: Mapping[str, Any],
    _kube_recordings: None,
) -> Iterator[TestServer]:
    """A fresh API server in memory, for this test alone: a running
    `kapiserver.testing.TestServer`."""
    if request.config.getoption(CLUSTER_OPTION) is not None:
        pytest.skip("needs a test server, for example for its clock or its faults")
    from kapiserver.testing.server import TestServer

    with TestServer(**_settings(request, kube_settings)) as server:
        server.state.update_snapshots = request.config.getoption("--kapiserver-update-snapshots")
        request.node.stash.setdefault(_SERVERS, []).append(server)
        yield server


@pytest.fixture
def kube_session(
    request: pytest.FixtureRequest,
    kube_settings: Mapping[str, Any],
    _kube_session_servers: Callable[[Mapping[str, Any]], TestServer | ExistingCluster],
) -> Iterator[TestNamespace]:
    """A fresh namespace, of a server that all tests of the session with the same settings share:
    a `kapiserver.testing.TestNamespace`."""
    from kapiserver.testing.fixtures.namespace import fresh_namespace
    from kapiserver.testing.server import TestServer

    server = _kube_session_servers(_settings(request, kube_settings))
    if isinstance(server, TestServer):
        request.node.stash.setdefault(_SERVERS, []).append(server)
    with fresh_namespace(server) as namespace:
        yield namespace


@pytest.fixture
def kube_clusters(
    request: pytest.FixtureRequest,
    kube_settings: Mapping[str, Any],
    _kube_session_servers: Callable[[Mapping[str, Any]], TestServer | ExistingCluster],
) -> Iterator[TestClusters]:
    """Creates clusters for this test, `kube_clusters.create()`, on a server that all tests of the
    session with the same settings share: a `kapiserver.testing.TestClusters`. Each has objects,
    definitions and roles of its own."""
    from kapiserver.testing.fixtures.clusters import TestClusters
    from kapiserver.testing.server import TestServer

    settings = {**_settings(request, kube_settings), "enable_logical_clusters": True}
    server = _kube_session_servers(settings)
    if not isinstance(server, TestServer):
        pytest.skip("needs a test server, which has logical clusters")
    request.node.stash.setdefault(_SERVERS, []).append(server)
    with TestClusters(server) as clusters:
        yield clusters


@pytest.fixture
def kube_cluster(kube_clusters: TestClusters) -> TestCluster:
    """A fresh cluster, of `kube_clusters`: a `kapiserver.testing.TestCluster`. The fixtures
    `kubeconfig`, `kube_client` and those that use them have this cluster."""
    return kube_clusters.create()


@pytest.fixture(scope="session")
def _kube_session_servers(
    request: pytest.FixtureRequest,
    _kube_recordings: None,
) -> Iterator[Callable[[Mapping[str, Any]], TestServer | ExistingCluster]]:
    """Returns the session's server for settings, or the cluster of the option."""
    from kapiserver.testing.server import TestServer

    must_update = request.config.getoption("--kapiserver-update-snapshots")
    servers: dict[str, TestServer] = {}
    cluster = request.config.getoption(CLUSTER_OPTION)
    with ExitStack() as stack:
        if cluster is not None:
            from kapiserver.testing.fixtures.existing_cluster import ExistingCluster

            existing = stack.enter_context(ExistingCluster(cluster))
            yield lambda _settings: existing
            return

        def server_for(settings: Mapping[str, Any]) -> TestServer:
            key = repr(sorted(settings.items()))
            if key not in servers:
                servers[key] = server = stack.enter_context(TestServer(**settings))
                server.state.update_snapshots = must_update
            return servers[key]

        yield server_for


@pytest.fixture
def _kube_namespace(request: pytest.FixtureRequest) -> TestNamespace:
    """The namespace of kube_session if the test uses it or the option names a cluster, otherwise
    `default` of kube_cluster or kube_apiserver."""
    from kapiserver.testing.fixtures.namespace import TestNamespace

    names = request.fixturenames
    if "kube_cluster" in names:
        cluster: TestCluster = request.getfixturevalue("kube_cluster")
        return cluster.namespace
    has_cluster = request.config.getoption(CLUSTER_OPTION) is not None
    if (has_cluster or "kube_session" in names) and "kube_apiserver" not in names:
        namespace: TestNamespace = request.getfixturevalue("kube_session")
        return namespace
    server = request.getfixturevalue("kube_apiserver")
    return TestNamespace(server, "default", server.kubeconfig)


@pytest.fixture
def kubeconfig(_kube_namespace: TestNamespace) -> Iterator[Path]:
    """The path of an administrator's kubeconfig for the test's server, which is in the environment
    as KUBECONFIG. The server is kube_session's if the test uses that fixture, otherwise
    kube_apiserver's."""
    from kapiserver.testing.fixtures.environment import use_kubeconfig

    with use_kubeconfig(_kube_namespace.kubeconfig):
        yield _kube_namespace.kubeconfig


@pytest.fixture
def kube_client(
    _kube_namespace: TestNamespace,
    kubeconfig: Path,  # noqa: ARG001 - clients that the test itself makes use it
) -> Iterator[KubeClients]:
    """Clients of each library that is installed, for the server of `kubeconfig`: a
    `kapiserver.testing.KubeClients`, as in `kube_client.lightkube()`."""
    from kapiserver.testing.fixtures.clients import KubeClients

    with KubeClients(_kube_namespace) as clients:
        yield clients


@pytest.fixture
def kube_crds(_kube_namespace: TestNamespace) -> Callable[..., list[Tree]]:
    """A function that installs CustomResourceDefinitions from files, directories and dicts, and
    returns them when they are established: `kube_crds("config/crd")`."""
    from kapiserver.testing.fixtures.definitions import install_definitions
    from kapiserver.testing.state.manifests import Source

    def install(*sources: Source) -> list[Tree]:
        return install_definitions(_kube_namespace.server, *sources)

    return install


@pytest.fixture
def _kube_users(_kube_namespace: TestNamespace) -> Iterator[Users]:
    from kapiserver.testing.fixtures.users import Users

    with Users(_kube_namespace) as users:
        yield users


@pytest.fixture
def kube_user(request: pytest.FixtureRequest, _kube_users: Users) -> Callable[..., TestUser]:
    """A function that returns a new user with rights of RBAC and clients of its own, a
    `kapiserver.testing.TestUser`: `kube_user("alice", groups=["devs"], rules=[...])`. Its arguments
    are those of `Users.add`."""
    if request.config.getoption(CLUSTER_OPTION) is not None:
        pytest.skip("needs a test server, which takes tokens of new users")
    return _kube_users.add


@pytest.fixture
def kube_service_account(_kube_users: Users) -> Callable[..., TestUser]:
    """A function that returns the user of a ServiceAccount, with rules, or with those of the
    bindings of an operator's manifest: `kube_service_account("robot", rules=[...])`. Its arguments
    are those of `Users.add_service_account`."""
    return _kube_users.add_service_account


@pytest.fixture
def kube_webhook(_kube_namespace: TestNamespace) -> Iterator[Webhooks]:
    """Serves functions as webhooks with certificates of their own, until the test ends, a
    `kapiserver.testing.Webhooks`: `kube_webhook.validating(function, resource="pods")`, `mutating`
    and `conversion`. The error of a function is an error of the test."""
    from kapiserver.testing.fixtures.cluster_server import ClusterServer
    from kapiserver.testing.fixtures.webhooks import Webhooks
    from kapiserver.testing.server import TestServer

    server = _kube_namespace.server
    if not isinstance(server, (TestServer, ClusterServer)):
        pytest.skip("needs a test server, which reaches webhooks of this process")
    with Webhooks(server) as webhooks:
        yield webhooks


@pytest.fixture
def kube_operator(
    _kube_namespace: TestNamespace,
    kubeconfig: Path,  # noqa: ARG001 - the operator uses it
) -> Iterator[Callable[..., None]]:
    """A function that runs `kopf.operator()` with its arguments in a thread of its own until the
    test ends, and returns when the startup handlers have run: `kube_operator(memo=...)`. The
    operator is `clusterwide`, or watches the namespace of kube_session, and is `standalone`. With
    `kubeconfig=` it is the user of that file, as in `kubeconfig=kube_user("alice").kubeconfig`."""
    from kapiserver.testing.fixtures.background import operator_arguments, running_operator
    from kapiserver.testing.fixtures.environment import use_kubeconfig

    with ExitStack() as stack:

        def run(*, kubeconfig: Path | None = None, **arguments: Any) -> None:
            arguments = operator_arguments(_kube_namespace.name, arguments)
            if kubeconfig is not None:
                stack.enter_context(use_kubeconfig(kubeconfig))
            _run_in_thread(stack, running_operator(**arguments), "kopf-operator")

        yield run


@pytest.fixture
def kube_background(
    kubeconfig: Path,  # noqa: ARG001 - the coroutine may use it
) -> Iterator[Callable[..., None]]:
    """A function that runs a coroutine function in a thread and an asyncio event loop of its own
    until the test ends, and cancels it then: `kube_background(controller.run, argument)`."""
    from kapiserver.testing.fixtures.background import running_coroutine

    with ExitStack() as stack:

        def run(
            function: Callable[..., Coroutine[Any, Any, object]],
            *arguments: Any,
            **keywords: Any,
        ) -> None:
            if not callable(function):
                raise TypeError(f"kube_background takes a coroutine function, not {function!r}")
            running = running_coroutine(function, *arguments, **keywords)
            _run_in_thread(stack, running, getattr(function, "__name__", "kube-background"))

        yield run


@pytest.fixture
def kube_command(kubeconfig: Path) -> Iterator[Callable[..., None]]:
    """A function that starts a command with KUBECONFIG, and ends it when the test ends:
    `kube_command("node", "operator.js", LOG_LEVEL="debug")`. Keywords are variables of its
    environment. Its output is in the report of a test that fails."""
    from kapiserver.testing.fixtures.commands import check_command, running_command

    with ExitStack() as stack:

        def run(*command: str, **environment: str) -> None:
            check_command(command)
            stack.enter_context(running_command(command, kubeconfig, environment))

        yield run


def _run_in_thread(stack: ExitStack, context: AbstractAsyncContextManager[None], name: str) -> None:
    """Open the context on a thread; the stack closes it."""
    from kapiserver.testing.loop_thread import LoopThread

    thread = LoopThread(context, name=name)
    thread.start()
    stack.callback(thread.stop)


def _settings(request: pytest.FixtureRequest, shared: Mapping[str, Any]) -> dict[str, Any]:
    """Return the shared settings and those of the test's markers; the closest marker wins."""
    settings = dict(shared)
    for marker in reversed(list(request.node.iter_markers(MARKER))):
        if marker.args:
            raise TypeError(f"the marker {MARKER} takes settings by name, as in rbac=False")
        settings |= marker.kwargs
    return settings
