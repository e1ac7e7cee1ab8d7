"""What runs in a server that simulates: controllers of the registry, and the simulators."""

from __future__ import annotations

from kapiserver.api.lazy import lazy
from kapiserver.apiserver.user import APISERVER, AUTHENTICATED, User
from kapiserver.controllers.descriptor import ControllerDescriptor, loaded_by

CONTROLLERS = (
    "cronjob-controller",
    "daemonset-controller",
    "deployment-controller",
    "device-taint-eviction-controller",
    "ephemeral-volume-controller",
    "horizontal-pod-autoscaler-controller",
    "job-controller",
    "kube-scheduler",
    "node-lifecycle-controller",
    "persistentvolume-attach-detach-controller",
    "persistentvolume-binder-controller",
    "persistentvolume-expander-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "replicationcontroller-controller",
    "resourceclaim-controller",
    "statefulset-controller",
    "taint-eviction-controller",
)
"""The controllers that `--simulate` turns on, unless `--controllers` turns them off."""

SIMULATORS = (
    ControllerDescriptor(
        name="simulated-nodes",
        factory=loaded_by(lazy("kapiserver.simulation.nodes:NodeSimulator")),
        user=APISERVER,
        manager="kubelet",
        selectable=False,
    ),
    ControllerDescriptor(
        name="simulated-leases",
        factory=loaded_by(lazy("kapiserver.simulation.leases:LeaseSimulator")),
        user=APISERVER,
        manager="kubelet",
        selectable=False,
    ),
    ControllerDescriptor(
        name="kube-scheduler",
        factory=loaded_by(lazy("kapiserver.simulation.scheduler.controller:Scheduler")),
        user=User(name="system:kube-scheduler", groups=(AUTHENTICATED,)),
        manager="kube-scheduler",
        enabled_by_default=False,
    ),
    ControllerDescriptor(
        name="simulated-kubelets",
        factory=loaded_by(lazy("kapiserver.simulation.kubelets:KubeletSimulator")),
        user=APISERVER,
        manager="kubelet",
        selectable=False,
    ),
    ControllerDescriptor(
        name="simulated-provisioners",
        factory=loaded_by(lazy("kapiserver.simulation.volumes.provisioner:ProvisionerSimulator")),
        user=APISERVER,
        manager="csi-provisioner",
        selectable=False,
    ),
    ControllerDescriptor(
        name="simulated-resizers",
        factory=loaded_by(lazy("kapiserver.simulation.volumes.resizer:ResizerSimulator")),
        user=APISERVER,
        manager="csi-resizer",
        selectable=False,
    ),
    ControllerDescriptor(
        name="simulated-attachers",
        factory=loaded_by(lazy("kapiserver.simulation.volumes.attacher:AttacherSimulator")),
        user=APISERVER,
        manager="csi-attacher",
        selectable=False,
    ),
    ControllerDescriptor(
        name="simulated-volumes-in-use",
        factory=loaded_by(
            lazy("kapiserver.simulation.volumes.volumes_in_use:VolumesInUseSimulator")
        ),
        user=APISERVER,
        manager="kubelet",
        selectable=False,
    ),
    ControllerDescriptor(
        name="metrics-reader-role",
        factory=loaded_by(lazy("kapiserver.simulation.metrics.reader_role:MetricsReaderInstaller")),
        user=APISERVER,
        manager="kapiserver",
        selectable=False,
    ),
    ControllerDescriptor(
        name="kwok-definitions",
        factory=loaded_by(lazy("kapiserver.simulation.kwok.definitions:DefinitionsInstaller")),
        user=APISERVER,
        manager="kwok",
        selectable=False,
    ),
    ControllerDescriptor(
        name="kwok-stages",
        factory=loaded_by(lazy("kapiserver.simulation.kwok.stages.controller:StageController")),
        user=APISERVER,
        manager="kwok",
        selectable=False,
    ),
    ControllerDescriptor(
        name="kwok-stage-status",
        factory=loaded_by(lazy("kapiserver.simulation.kwok.stages.reporter:StageReporter")),
        user=APISERVER,
        manager="kwok",
        selectable=False,
    ),
    ControllerDescriptor(
        name="kwok-resource-usages",
        factory=loaded_by(
            lazy("kapiserver.simulation.kwok.expression_reporter:ResourceUsageReporter")
        ),
        user=APISERVER,
        manager="kwok",
        selectable=False,
    ),
    ControllerDescriptor(
        name="kwok-cluster-resource-usages",
        factory=loaded_by(
            lazy("kapiserver.simulation.kwok.expression_reporter:ClusterResourceUsageReporter")
        ),
        user=APISERVER,
        manager="kwok",
        selectable=False,
    ),
    ControllerDescriptor(
        name="kwok-metrics",
        factory=loaded_by(lazy("kapiserver.simulation.kwok.expression_reporter:MetricReporter")),
        user=APISERVER,
        manager="kwok",
        selectable=False,
    ),
)
"""What takes the place of nodes, kubelets, CSI drivers and the scheduler."""
