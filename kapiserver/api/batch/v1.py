"""batch/v1: jobs and cron jobs."""

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
    """Makes jobs on a schedule."""

    metadata: ObjectMeta = field(
        1,
        doc=(
            "Standard object's metadata. The name may have at most 52 characters, since the names "
            "of jobs are made from it."
        ),
    )
    spec: CronJobSpec = field(2, required=True, doc="The schedule, and the jobs to make.")
    status: CronJobStatus = field(3, doc="The running jobs, and when the last one was due.")


class CronJobSpec(Type):
    """The schedule of a cron job and the jobs that it makes."""

    schedule: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "When to make a job, in cron format: minute, hour, day of month, month, day of week. "
            'Example: "*/15 * * * *".'
        ),
    )
    timeZone: str | None = field(
        8,
        doc=(
            "Name of the time zone of the schedule in the tz database, such as Europe/Berlin. If "
            "it is absent, that of the kube-controller-manager."
        ),
    )
    startingDeadlineSeconds: int64 | None = field(
        2,
        doc=(
            "Seconds after its scheduled time within which a job may still start. Missed jobs "
            "count as failed. No deadline if absent."
        ),
    )
    concurrencyPolicy: str = field(
        3,
        enum=("Allow", "Forbid", "Replace"),
        doc=(
            "Allow (the default) starts a job while the last one still runs, Forbid skips the new "
            "job, Replace replaces the running job."
        ),
    )
    suspend: bool | None = field(
        4, doc="If true, no new jobs are started; running jobs go on. Defaults to false."
    )
    jobTemplate: JobTemplateSpec = field(
        5, doc="Metadata and spec of the jobs to make.", required=True
    )
    successfulJobsHistoryLimit: int32 | None = field(
        6, doc="Number of successful jobs to keep; zero or more. Defaults to 3."
    )
    failedJobsHistoryLimit: int32 | None = field(
        7, doc="Number of failed jobs to keep; zero or more. Defaults to 1."
    )


class CronJobStatus(Type):
    """The running jobs of a cron job, and the times of past ones."""

    active: list[ObjectReference] = field(1, doc="References to the jobs that are running now.")
    lastScheduleTime: Time | None = field(
        4, doc="When a job was last scheduled, whether or not it succeeded."
    )
    lastSuccessfulTime: Time | None = field(5, doc="When a job last finished successfully.")


class Job(Kind):
    """Runs pods until enough of them have succeeded."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata. The name becomes part of the pods' names."
    )
    spec: JobSpec = field(2, doc="The pods to run, and when the job is complete or has failed.")
    status: JobStatus = field(
        3, doc="Counts of the running, successful and failed pods, and the conditions of the job."
    )


class JobCondition(Type):
    """One condition of a job."""

    type: str = field(
        1,
        always=True,
        doc=(
            "Complete, Failed, Suspended, SuccessCriteriaMet (the job will become Complete) or "
            "FailureTarget (the job will become Failed)."
        ),
        required=True,
    )
    status: str = field(
        2,
        always=True,
        doc="Whether the job has the condition: True, False or Unknown.",
        required=True,
    )
    lastProbeTime: Time = field(3, doc="When the condition was last checked.")
    lastTransitionTime: Time = field(
        4, doc="When the condition last changed from one status to another."
    )
    reason: str = field(
        5,
        doc=(
            "A CamelCase word for the cause of the last transition, such as BackoffLimitExceeded."
        ),
    )
    message: str = field(
        6, doc="A text for people about the last transition, such as which limit was reached."
    )


class JobSchedulingConfiguration(Type):
    """Scheduling of the pods of a job as a group."""

    schedulingPolicy: WorkloadPodGroupSchedulingPolicy | None = field(
        1,
        doc=(
            "Whether the pods of the job are scheduled one by one or as a gang. It can be neither "
            "added nor removed later."
        ),
    )
    schedulingConstraints: WorkloadPodGroupSchedulingConstraints | None = field(
        2,
        doc=(
            "Node labels whose value must be the same for all pods of the job. Cannot be changed."
        ),
    )
    disruptionMode: WorkloadPodGroupDisruptionMode | None = field(
        3,
        doc=(
            "Whether the pods of the job are preempted and evicted one by one or together. Cannot "
            "be changed."
        ),
    )
    resourceClaims: list[WorkloadPodGroupResourceClaim] = field(
        4,
        keys=("name",),
        merge="name",
        doc="Resource claims that all pods of the job share, at most 4. Cannot be changed.",
    )


class JobSpec(Type):
    """The pods of a job, how many must succeed, and which failures end the job."""

    parallelism: int32 | None = field(
        1, doc="Number of pods that may run at the same time; zero or more. Defaults to 1."
    )
    completions: int32 | None = field(
        2,
        doc=(
            "Number of pods that must succeed. If it is absent, one success completes the job. "
            "Defaults to 1 if parallelism is absent too."
        ),
    )
    activeDeadlineSeconds: int64 | None = field(
        3,
        doc=(
            "Seconds that the job may be active; greater than zero. After that, its pods are "
            "terminated and it fails. No limit if absent."
        ),
    )
    podFailurePolicy: PodFailurePolicy | None = field(
        11,
        doc=(
            "Rules for failed pods: they fail the job or an index, or are ignored. The pods' "
            "restartPolicy must be Never."
        ),
    )
    successPolicy: SuccessPolicy | None = field(
        16,
        doc=(
            "Rules by which an Indexed job succeeds before all indexes have. If it is absent, "
            "completions decides."
        ),
    )
    backoffLimit: int32 | None = field(
        7,
        doc=(
            "Number of failed pods to retry before the job fails. Defaults to 6, or to no limit "
            "if backoffLimitPerIndex is set."
        ),
    )
    backoffLimitPerIndex: int32 | None = field(
        12,
        doc=(
            "Number of failed pods to retry for each index of an Indexed job before the index "
            "fails. The pods' restartPolicy must be Never."
        ),
    )
    maxFailedIndexes: int32 | None = field(
        13,
        doc=(
            "Number of failed indexes above which the job fails and its pods are terminated. "
            "Needs backoffLimitPerIndex; no limit if absent."
        ),
    )
    selector: LabelSelector | None = field(
        4,
        doc=(
            "Labels of the pods that belong to the job. The server sets it, unless manualSelector "
            "is true."
        ),
    )
    manualSelector: bool | None = field(
        5,
        doc=(
            "If true, the server adds no selector and no labels to the pods; the user must keep "
            "them apart from other pods. Defaults to false."
        ),
    )
    template: PodTemplateSpec = field(
        6, doc="The pods to run. The restartPolicy must be Never or OnFailure.", required=True
    )
    ttlSecondsAfterFinished: int32 | None = field(
        8,
        doc=(
            "Seconds after its end at which the job is deleted. 0 deletes it at once; if absent, "
            "it is kept."
        ),
    )
    completionMode: str | None = field(
        9,
        enum=("NonIndexed", "Indexed"),
        doc=(
            "NonIndexed (the default) counts successful pods. Indexed gives each pod an index "
            "from 0 to completions - 1 and needs one success for each."
        ),
    )
    suspend: bool | None = field(
        10,
        doc=(
            "If true, the job makes no pods, and running ones are deleted. Setting it to false "
            "starts the job again. Defaults to false."
        ),
    )
    podReplacementPolicy: str | None = field(
        14,
        enum=("TerminatingOrFailed", "Failed"),
        doc=(
            "TerminatingOrFailed (the default) replaces a pod once it terminates, Failed only "
            "once it has ended. Must be Failed with podFailurePolicy."
        ),
    )
    managedBy: str | None = field(
        15,
        doc=(
            "The controller that runs the job, as a domain and a path of at most 63 characters. "
            "If it is absent, the built-in one does. Cannot be changed."
        ),
    )
    scheduling: JobSchedulingConfiguration | None = field(
        17,
        doc=(
            "Scheduling of the pods as a group. If it is absent, each pod is scheduled by itself."
        ),
    )


class JobStatus(Type):
    """Counts of the pods of a job, and its conditions."""

    conditions: list[JobCondition] = field(
        1,
        merge="type",
        doc="The state of the job. When it has finished, Complete or Failed is true.",
    )
    startTime: Time | None = field(
        2,
        doc=(
            "When the controller first worked on the job, or when it was last resumed from "
            "suspension."
        ),
    )
    completionTime: Time | None = field(
        3, doc="When the job succeeded. Absent for a job that failed."
    )
    active: int32 = field(4, doc="Number of pods that are pending or running and not terminating.")
    succeeded: int32 = field(5, doc="Number of pods that reached the phase Succeeded.")
    failed: int32 = field(6, doc="Number of pods that reached the phase Failed.")
    terminating: int32 | None = field(
        11, doc="Number of pods that are terminating but have not ended."
    )
    completedIndexes: str = field(
        7,
        doc=(
            "Indexes that have succeeded, for an Indexed job, as numbers and ranges such as "
            "1,3-5,7."
        ),
    )
    failedIndexes: str | None = field(
        10,
        doc=(
            "Indexes that have failed for good, as numbers and ranges such as 1,3-5,7. Set with "
            "backoffLimitPerIndex only."
        ),
    )
    uncountedTerminatedPods: UncountedTerminatedPods | None = field(
        8,
        doc=(
            "Pods that have ended but are not yet added to succeeded or failed. The controller "
            "uses it to count each pod once."
        ),
    )
    ready: int32 | None = field(9, doc="Number of active pods that are ready.")


class JobTemplateSpec(Type):
    """Metadata and spec of the jobs that a cron job makes."""

    metadata: ObjectMeta = field(
        1, doc="Labels and annotations of the jobs; names are made from the cron job's name."
    )
    spec: JobSpec = field(2, doc="The pods of the jobs, and when a job is complete.")


class PodFailurePolicy(Type):
    """Rules for the effect of failed pods on a job."""

    rules: list[PodFailurePolicyRule] = field(
        1,
        always=True,
        required=True,
        doc=(
            "The rules, in order; the first that matches a failed pod decides. At most 20. If "
            "none matches, the failure counts towards backoffLimit."
        ),
    )


class PodFailurePolicyOnExitCodesRequirement(Type):
    """Exit codes of containers that a rule matches."""

    containerName: str | None = field(
        1,
        doc=(
            "Name of the container whose exit code counts. If it is absent, that of any container "
            "or init container does."
        ),
    )
    operator: str = field(
        2,
        always=True,
        enum=("In", "NotIn"),
        required=True,
        doc=(
            "In matches if an exit code is among the values, NotIn if none is. Containers that "
            "exited with 0 do not count."
        ),
    )
    values: list[int32] = field(
        3,
        always=True,
        set=True,
        required=True,
        doc=(
            "The exit codes in ascending order without repetition, 1 to 255 of them. 0 is not "
            "allowed with the operator In."
        ),
    )


class PodFailurePolicyOnPodConditionsPattern(Type):
    """A condition of failed pods that a rule matches."""

    type: str = field(
        1, always=True, required=True, doc="Type of the pod condition, such as DisruptionTarget."
    )
    status: str = field(
        2,
        always=True,
        doc="Status that the condition must have: True (the default), False or Unknown.",
    )


class PodFailurePolicyRule(Type):
    """The action for failed pods that match; either onExitCodes or onPodConditions is set."""

    action: str = field(
        1,
        always=True,
        enum=("FailJob", "FailIndex", "Ignore", "Count"),
        required=True,
        doc=(
            "FailJob fails the job, FailIndex fails the pod's index, Ignore replaces the pod "
            "without counting the failure, Count counts it."
        ),
    )
    onExitCodes: PodFailurePolicyOnExitCodesRequirement | None = field(
        2, doc="The exit codes that the rule matches. Excludes onPodConditions."
    )
    onPodConditions: list[PodFailurePolicyOnPodConditionsPattern] = field(
        3,
        doc=(
            "The pod conditions that the rule matches if the pod has any of them, at most 20. "
            "Excludes onExitCodes."
        ),
    )


class SuccessPolicy(Type):
    """Rules by which an Indexed job succeeds before all its indexes have."""

    rules: list[SuccessPolicyRule] = field(
        1,
        always=True,
        required=True,
        doc=(
            "The rules; the job succeeds as soon as one is met, and its other pods are "
            "terminated. 1 to 20."
        ),
    )


class SuccessPolicyRule(Type):
    """The indexes, or the number of them, that must have succeeded; at least one field is set."""

    succeededIndexes: str | None = field(
        1,
        doc=(
            "Indexes that must all have succeeded, as ascending numbers and ranges such as "
            "1,3-5,7. With succeededCount, only that many of them."
        ),
    )
    succeededCount: int32 | None = field(
        2,
        doc=(
            "Number of indexes that must have succeeded, out of succeededIndexes if that is set. "
            "From 1 to completions."
        ),
    )


class UncountedTerminatedPods(Type):
    """Pods that ended but are not counted in the status yet."""

    succeeded: list[str] = field(
        1, set=True, doc="UIDs of pods that succeeded and are not counted yet."
    )
    failed: list[str] = field(2, set=True, doc="UIDs of pods that failed and are not counted yet.")
