"""batch/v1: pods that run to an end, once or by the clock."""

from __future__ import annotations

from kapiserver.api.core.v1 import ObjectReference, PodTemplateSpec
from kapiserver.api.meta.v1 import LabelSelector, ObjectMeta
from kapiserver.api.scalar_types import Time
from kapiserver.api.scheduling.v1alpha3 import (
    WorkloadPodGroupDisruptionMode,
    WorkloadPodGroupResourceClaim,
    WorkloadPodGroupSchedulingConstraints,
    WorkloadPodGroupSchedulingPolicy,
)
from kapiserver.api.types import Kind, Type, field, int32, int64


class CronJob(Kind):
    """Jobs by the clock."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: CronJobSpec = field(2, required=True, doc="The desired state.")
    status: CronJobStatus = field(3, doc="The observed state.")


class CronJobSpec(Type):
    """When, and what the jobs look like."""

    schedule: str = field(1, always=True, required=True, doc="When, in the form of cron.")
    timeZone: str | None = field(8, doc="The time zone of the schedule.")
    startingDeadlineSeconds: int64 | None = field(2, doc="How late a job may still start.")
    concurrencyPolicy: str = field(
        3, enum=("Allow", "Forbid", "Replace"), doc="What happens when the last one still runs."
    )
    suspend: bool | None = field(4, doc="No new jobs while true.")
    jobTemplate: JobTemplateSpec = field(5, doc="What the jobs look like.", required=True)
    successfulJobsHistoryLimit: int32 | None = field(
        6, doc="How many jobs that succeeded are kept."
    )
    failedJobsHistoryLimit: int32 | None = field(7, doc="How many jobs that failed are kept.")


class CronJobStatus(Type):
    """What is known of a cron job."""

    active: list[ObjectReference] = field(1, doc="The jobs that run.")
    lastScheduleTime: Time | None = field(4, doc="When a job was last due.")
    lastSuccessfulTime: Time | None = field(5, doc="When a job last succeeded.")


class Job(Kind):
    """Pods that run to an end."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: JobSpec = field(2, doc="The desired state.")
    status: JobStatus = field(3, doc="The observed state.")


class JobCondition(Type):
    """One finding about a job."""

    type: str = field(1, always=True, doc="What the finding is about.", required=True)
    status: str = field(2, always=True, doc="True, False or Unknown.", required=True)
    lastProbeTime: Time = field(3, doc="When it was last looked at.")
    lastTransitionTime: Time = field(4, doc="When the status last changed.")
    reason: str = field(5, doc="Why, in one word for programs.")
    message: str = field(6, doc="Why, for people.")


class JobSchedulingConfiguration(Type):
    """How the pods of a job are placed together."""

    schedulingPolicy: WorkloadPodGroupSchedulingPolicy | None = field(
        1, doc="How the group is scheduled."
    )
    schedulingConstraints: WorkloadPodGroupSchedulingConstraints | None = field(
        2, doc="Where the group may run."
    )
    disruptionMode: WorkloadPodGroupDisruptionMode | None = field(
        3, doc="Whether members go one by one or all together."
    )
    resourceClaims: list[WorkloadPodGroupResourceClaim] = field(
        4, keys=("name",), merge="name", doc="Claims to devices that its pods share."
    )


class JobSpec(Type):
    """How many pods, how many at once, and when it is done or has failed."""

    parallelism: int32 | None = field(1, doc="How many pods run at once.")
    completions: int32 | None = field(2, doc="How many pods must succeed.")
    activeDeadlineSeconds: int64 | None = field(3, doc="How long the job may take.")
    podFailurePolicy: PodFailurePolicy | None = field(11, doc="What failures of pods mean.")
    successPolicy: SuccessPolicy | None = field(16, doc="When it has succeeded before all is done.")
    backoffLimit: int32 | None = field(7, doc="How many failures it bears.")
    backoffLimitPerIndex: int32 | None = field(12, doc="How often each index may fail.")
    maxFailedIndexes: int32 | None = field(13, doc="How many indexes may fail.")
    selector: LabelSelector | None = field(4, doc="Labels of the job's pods; made by the server.")
    manualSelector: bool | None = field(5, doc="Whether the selector is the client's business.")
    template: PodTemplateSpec = field(6, doc="What the pods look like.", required=True)
    ttlSecondsAfterFinished: int32 | None = field(
        8, doc="How long the job is kept once it is done."
    )
    completionMode: str | None = field(
        9, enum=("NonIndexed", "Indexed"), doc="Whether each pod has an index."
    )
    suspend: bool | None = field(10, doc="No pods while true.")
    podReplacementPolicy: str | None = field(
        14,
        enum=("TerminatingOrFailed", "Failed"),
        doc="TerminatingOrFailed or Failed: when a pod is replaced.",
    )
    managedBy: str | None = field(15, doc="Who runs the job, if not the controller.")
    scheduling: JobSchedulingConfiguration | None = field(
        17, doc="How its pods are scheduled together."
    )


class JobStatus(Type):
    """What is known of a job."""

    conditions: list[JobCondition] = field(1, merge="type", doc="What was found out about it.")
    startTime: Time | None = field(2, doc="When the job began.")
    completionTime: Time | None = field(3, doc="When the job succeeded.")
    active: int32 = field(4, doc="Pods that run.")
    succeeded: int32 = field(5, doc="Pods that succeeded.")
    failed: int32 = field(6, doc="Pods that failed.")
    terminating: int32 | None = field(11, doc="How many pods are ending.")
    completedIndexes: str = field(7, doc="Indexes that are done, as 1,3-5.")
    failedIndexes: str | None = field(10, doc="Indexes that failed, as 1,3-5.")
    uncountedTerminatedPods: UncountedTerminatedPods | None = field(
        8, doc="Pods that ended and are not counted yet."
    )
    ready: int32 | None = field(9, doc="Pods that are ready.")


class JobTemplateSpec(Type):
    """What the jobs of a cron job look like."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: JobSpec = field(2, doc="What is wanted.")


class PodFailurePolicy(Type):
    """What becomes of the job when pods fail."""

    rules: list[PodFailurePolicyRule] = field(1, always=True, required=True, doc="The rules.")


class PodFailurePolicyOnExitCodesRequirement(Type):
    """Which exit codes of containers a rule is for."""

    containerName: str | None = field(1, doc="The container, by name.")
    operator: str = field(2, always=True, enum=("In", "NotIn"), required=True, doc="In or NotIn.")
    values: list[int32] = field(
        3, always=True, set=True, required=True, doc="The values to compare with."
    )


class PodFailurePolicyOnPodConditionsPattern(Type):
    """A condition of the pod that a rule is for."""

    type: str = field(1, always=True, required=True, doc="Which of the kinds it is.")
    status: str = field(2, always=True, doc="True, False or Unknown.")


class PodFailurePolicyRule(Type):
    """One kind of failure, and what follows."""

    action: str = field(
        1,
        always=True,
        enum=("FailJob", "FailIndex", "Ignore", "Count"),
        required=True,
        doc="FailJob, FailIndex, Ignore or Count.",
    )
    onExitCodes: PodFailurePolicyOnExitCodesRequirement | None = field(
        2, doc="Exit codes that it is about."
    )
    onPodConditions: list[PodFailurePolicyOnPodConditionsPattern] = field(
        3, doc="Conditions of pods that it is about."
    )


class SuccessPolicy(Type):
    """When a job is done before all its pods are."""

    rules: list[SuccessPolicyRule] = field(1, always=True, required=True, doc="The rules.")


class SuccessPolicyRule(Type):
    """Which pods must have succeeded, or how many."""

    succeededIndexes: str | None = field(1, doc="Indexes that must be done.")
    succeededCount: int32 | None = field(2, doc="How many indexes must be done.")


class UncountedTerminatedPods(Type):
    """Pods that ended and are not counted yet."""

    succeeded: list[str] = field(1, set=True, doc="Pods that succeeded, by uid.")
    failed: list[str] = field(2, set=True, doc="Pods that failed, by uid.")
