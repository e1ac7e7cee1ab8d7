"""The Go projects whose test suites run against `kapiserver envtest`, with the counts of each.

To add one: a Project here, and its table in docs/go-suites.md, which `make test-go-suites` prints.
"""

from tests.clients.go_suites import Files, Package, Project

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
        Package(
            "test/integration/controllers",
            47,
            unstable=1,
            why="1 spec marks pods as ready without waiting for the controller; it fails on a busy "
            "machine",
        ),
        Package("test/integration/webhooks", 71),
    ),
)

KRO = Project(
    name="kro",
    module="github.com/kubernetes-sigs/kro",
    version="v0.9.4",
    packages=(Package("test/integration/suites/core", 146),),
)

GATEKEEPER = Project(
    name="gatekeeper",
    module="github.com/open-policy-agent/gatekeeper/v3",
    version="v3.23.1",
    packages=(
        Package("pkg/controller/config", 17),
        Package("pkg/controller/config/process", 11),
        Package("pkg/controller/connectionstatus", 1),
        Package("pkg/controller/constraint", 55),
        Package("pkg/controller/constrainttemplate", 69),
        Package("pkg/controller/constrainttemplatestatus", 9),
        Package("pkg/controller/expansion", 6),
        Package("pkg/controller/externaldata", 15),
        Package("pkg/controller/externaldatastatus", 8),
        Package("pkg/controller/mutators", 9),
        Package("pkg/controller/mutators/core", 27),
        Package("pkg/controller/mutators/instances", 2),
        Package("pkg/controller/syncset", 2),
        Package("pkg/controller/webhookconfig", 20),
        Package("pkg/controller/webhookconfig/webhookconfigcache", 3),
        Package("pkg/readiness", 65),
        Package("pkg/readiness/pruner", 1),
        Package("pkg/watch", 32),
    ),
    environment={"KAPISERVER_VERSION": "1.33"},
)

CLUSTER_API = Project(
    name="cluster-api",
    module="sigs.k8s.io/cluster-api",
    version="v1.14.2",
    packages=(
        Package("bootstrap/kubeadm/reconcilers/kubeadmconfig", 80),
        Package("controllers/clustercache", 35),
        Package("controllers/crdmigrator", 9),
        Package("controlplane/kubeadm/pkg", 243, skipped=1),
        Package("controlplane/kubeadm/reconcilers/kubeadmcontrolplane", 323, skipped=2),
        Package("core/reconcilers/cluster", 185),
        Package("core/reconcilers/clusterclass", 15),
        Package("core/reconcilers/clusterresourceset", 24),
        Package("core/reconcilers/extensionconfig", 21),
        Package("core/reconcilers/machine", 268),
        Package("core/reconcilers/machinedeployment", 2513),
        Package("core/reconcilers/machinehealthcheck", 70, skipped=1),
        Package("core/reconcilers/machinepool", 79),
        Package("core/reconcilers/machineset", 210),
        Package(
            "core/reconcilers/topology/cluster",
            244,
            unstable=1,
            why="1 test reads the client's cache 2 ms after a write; it fails on a busy machine",
        ),
        Package("core/reconcilers/topology/cluster/patches", 25),
        Package("core/reconcilers/topology/cluster/patches/external", 2),
        Package("core/reconcilers/topology/cluster/patches/inline", 114),
        Package("core/reconcilers/topology/cluster/patches/variables", 30),
        Package("core/reconcilers/topology/cluster/structuredmerge", 37),
        Package("core/reconcilers/topology/machinedeployment", 7),
        Package("core/reconcilers/topology/machineset", 11),
        Package("core/webhooks/admission/test", 40),
        Package("internal/topology/upgrade", 1),
        Package("internal/util/ssa/test", 20),
        Package("util/controller", 18),
        Package("util/deprecated/v1beta1/patch", 59),
        Package("util/patch/test", 51),
    ),
    added=(Files(module="sigs.k8s.io/cluster-api/api@v1.14.2", target="api"),),
)

EXTERNAL_SECRETS = Project(
    name="external-secrets",
    module="github.com/external-secrets/external-secrets",
    version="v0.19.2",
    packages=(
        Package("pkg/controllers/clusterexternalsecret", 11),
        Package("pkg/controllers/crds", 12),
        Package("pkg/controllers/webhookconfig", 3),
    ),
)

PROJECTS = (CONTROLLER_RUNTIME, JOBSET, LWS, KRO, EXTERNAL_SECRETS, GATEKEEPER, CLUSTER_API)
