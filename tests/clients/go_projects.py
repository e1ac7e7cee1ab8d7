"""The Go projects whose test suites run against `kapiserver envtest`, with the counts of each.

To add one: a Project here, and its table in docs/go-suites.md, which `make test-go-suites` prints.
"""

from tests.clients.go_suites import Package, Project

CONTROLLER_RUNTIME = Project(
    name="controller-runtime",
    module="sigs.k8s.io/controller-runtime",
    version="v0.25.2",
    packages=(
        Package("pkg/builder", 72),
        Package("pkg/cache", 308),
        Package("pkg/client", 350, skipped=22),
        Package(
            "pkg/client/apiutil",
            20,
            failed=2,
            why="2 tests download kube-apiserver 1.28, which has no aggregated discovery",
        ),
        Package("pkg/cluster", 15),
        Package("pkg/controller", 32),
        Package("pkg/controller/controllerutil", 60),
        Package("pkg/envtest", 35),
        Package("pkg/handler", 96),
        Package("pkg/internal/controller", 75, skipped=3),
        Package("pkg/internal/recorder", 5),
        Package("pkg/internal/testing/controlplane", 42, skipped=2),
        Package("pkg/manager", 108),
        Package("pkg/manager/internal/integration", 2),
        Package("pkg/metrics/filters", 2),
        Package("pkg/reconcile", 10),
        Package("pkg/source", 19, skipped=1),
        Package("pkg/webhook", 8, skipped=2),
    ),
)

JOBSET = Project(
    name="jobset",
    module="sigs.k8s.io/jobset",
    version="v0.10.1",
    packages=(
        Package("test/integration/controller", 54),
        Package("test/integration/webhook", 24),
    ),
)

LWS = Project(
    name="lws",
    module="sigs.k8s.io/lws",
    version="v0.7.0",
    packages=(
        Package("test/integration/controllers", 47),
        Package("test/integration/webhooks", 71),
    ),
)

KRO = Project(
    name="kro",
    module="github.com/kubernetes-sigs/kro",
    version="v0.9.4",
    packages=(Package("test/integration/suites/core", 146),),
)

PROJECTS = (CONTROLLER_RUNTIME, JOBSET, LWS, KRO)
