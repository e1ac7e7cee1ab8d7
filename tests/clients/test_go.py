"""client-go, an operator with webhooks, and the test suites of controller-runtime."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kapiserver.testing import TestClusters, TestServer
from tests.clients import go_suites
from tests.clients.go_projects import CONTROLLER_RUNTIME, PROJECTS
from tests.clients.toolchains import BUILDS, FETCH, install, run_suite, suite_folder
from tests.e2e.programs import ROOT, Server, start, stop

GO = {"GOFLAGS": "-p=1", "GOTOOLCHAIN": "local"}
OPERATOR = ROOT / "examples" / "go-operator"


@pytest.fixture(scope="session")
def assets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory that `kapiserver envtest` writes."""
    return go_suites.write_assets(tmp_path_factory.mktemp("assets"))


def test_client_go(suite_environment: dict[str, str]) -> None:
    """The suite in tests/clients/go passes."""
    folder = suite_folder("go", "go")
    install(folder, *FETCH["go"])
    output = run_suite(folder, suite_environment | GO, "go", "test", "-v", ".")
    assert len(re.findall(r"^--- PASS: ", output, re.MULTILINE)) > 10, output


@pytest.mark.slow  # compiles another program; tests/e2e has the same with kubectl
def test_streams(tmp_path: Path) -> None:
    """client-go runs commands, attaches, forwards ports and follows logs, over each protocol."""
    folder = suite_folder("go", "go")
    install(folder, *FETCH["go"])
    server = start(tmp_path, "--simulate", "--simulate-host-access")
    environment = GO | {"KUBECONFIG": str(server.kubeconfig)}
    try:
        output = run_suite(folder, environment, "go", "test", "-count=1", "-v", "./streams")
    finally:
        stop(server)
    assert len(re.findall(r"^ *--- PASS: ", output, re.MULTILINE)) == 13, output


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["", "dynamic-"])
def test_examples_of_client_go(server: Server, kind: str) -> None:
    """An example program of client-go creates, updates, lists and deletes a deployment."""
    folder = suite_folder("go", "go")
    install(folder, *FETCH["go"])
    program = f"k8s.io/client-go/examples/{kind}create-update-delete-deployment"
    output = run_suite(folder, GO, "go", "run", program, f"-kubeconfig={server.kubeconfig}")
    assert "demo-deployment (1 replicas)" in output
    assert "Deleted deployment." in output


@pytest.mark.slow  # compiles controller-runtime
@pytest.mark.parametrize(
    ("variables", "test"), [({}, "TestStatus"), ({"KAPISERVER_SIMULATE": "1"}, "TestRollout")]
)
def test_operator(assets: Path, variables: dict[str, str], test: str) -> None:
    """The tests of examples/go-operator pass with the executables of envtest, also when nodes are
    simulated: then the operator waits until its pods are ready."""
    if shutil.which("go") is None:
        pytest.skip("go is not installed")
    folder = BUILDS / "go-operator"
    shutil.copytree(OPERATOR, folder, dirs_exist_ok=True)
    install(folder, *FETCH["go"])
    output = run_suite(
        folder,
        GO | variables | {"KUBEBUILDER_ASSETS": str(assets)},
        *("go", "test", "-count=1", "-v", "./..."),
    )
    assert len(re.findall(r"^--- PASS: ", output, re.MULTILINE)) >= 7, output
    assert f"--- PASS: {test} " in output


@pytest.mark.slow  # compiles controller-runtime
def test_operator_in_clusters() -> None:
    """The same tests pass twice in clusters of one server, which are existing clusters for envtest,
    so that nothing of one run is left for the other."""
    if shutil.which("go") is None:
        pytest.skip("go is not installed")
    folder = BUILDS / "go-operator"
    shutil.copytree(OPERATOR, folder, dirs_exist_ok=True)
    install(folder, *FETCH["go"])
    controllers = ["garbage-collector-controller", "namespace-controller"]
    with (
        TestServer(enable_logical_clusters=True, controllers=controllers) as server,
        TestClusters(server) as clusters,
    ):
        for _ in range(2):
            kubeconfig = str(clusters.create().kubeconfig)
            variables = {"USE_EXISTING_CLUSTER": "true", "KUBECONFIG": kubeconfig}
            output = run_suite(folder, GO | variables, "go", "test", "-count=1", "-v", "./...")
            assert len(re.findall(r"^--- PASS: ", output, re.MULTILINE)) >= 7, output


@pytest.fixture(scope="session")
def source() -> Path:
    """The source of controller-runtime."""
    if shutil.which("go") is None:
        pytest.skip("go is not installed")
    try:
        return go_suites.fetch_source(CONTROLLER_RUNTIME)
    except subprocess.CalledProcessError:
        pytest.skip("the Go module proxy cannot be reached")


@pytest.mark.slow
@pytest.mark.parametrize("package", CONTROLLER_RUNTIME.packages, ids=lambda package: package.name)
def test_controller_runtime(source: Path, assets: Path, package: go_suites.Package) -> None:
    """Every spec of the suite passes, but those that need a download. The suites of other projects
    take too long for a test: `make test-go-suites` runs them."""
    result = go_suites.run(CONTROLLER_RUNTIME, source, assets, package)
    assert result.failed == package.failed, result.output
    assert result.passed > 0, result.output


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_page(project: go_suites.Project) -> None:
    """The page of Go suites has the table of each project, and a cause of each failure."""
    page = (ROOT / "docs" / "go-suites.md").read_text()
    rows = map(go_suites.row, project.packages)
    assert "\n".join([*go_suites.header(project), *rows]) in page
    assert not [package.name for package in project.packages if package.failed and not package.why]


def test_results() -> None:
    """The specs of Ginkgo and the Go tests are counted, each once."""
    output = (
        "=== RUN   TestSource\nRunning Suite: Source\nRan 3 of 4 Specs in 1.000 seconds\n"
        "FAIL! -- 2 Passed | 1 Failed | 1 Pending | 0 Skipped\n  [FAIL] a b\n--- FAIL: TestSource\n"
        "=== RUN   TestOther\n--- FAIL: TestOther (0.1s)\n    --- PASS: TestOther/one (0.0s)\n"
        "    --- FAIL: TestOther/two/three/four (0.0s)\n--- PASS: TestThird (0.0s)\n"
        "--- SKIP: TestFourth\n"
    )
    result = go_suites.parse(output)
    assert (result.passed, result.failed, result.skipped) == (4, 2, 2)
    assert result.failures == ("a b", "TestOther/two/three/four")


@pytest.mark.parametrize(
    ("passed", "failed", "skipped", "is_expected"),
    [(9, 1, 2, True), (8, 2, 2, True), (7, 3, 2, False), (10, 0, 2, False), (9, 1, 1, False)],
)
def test_expected_counts(passed: int, failed: int, skipped: int, is_expected: bool) -> None:
    """The counts are those of the table, but for specs that are known to fail at times."""
    package = go_suites.Package("p", 9, failed=1, skipped=2, unstable=1)
    result = go_suites.Result(passed=passed, failed=failed, skipped=skipped, failures=(), output="")
    assert result.equals(package) is is_expected
