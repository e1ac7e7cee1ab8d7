"""batch/v1beta1: pods that run to an end, once or by the clock."""

from __future__ import annotations

from kapiserver.api.batch.v1 import JobSpec
from kapiserver.api.core.v1 import ObjectReference
from kapiserver.api.leaves import Time
from kapiserver.api.meta.v1 import ObjectMeta
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
    concurrencyPolicy: str = field(3, doc="What happens when the last one still runs.")
    suspend: bool | None = field(4, doc="No new jobs while true.")
    jobTemplate: JobTemplateSpec = field(5, doc="What the jobs look like.")
    successfulJobsHistoryLimit: int32 | None = field(
        6, doc="How many jobs that succeeded are kept."
    )
    failedJobsHistoryLimit: int32 | None = field(7, doc="How many jobs that failed are kept.")


class CronJobStatus(Type):
    """What is known of a cron job."""

    active: list[ObjectReference] = field(1, doc="The jobs that run.")
    lastScheduleTime: Time | None = field(4, doc="When a job was last due.")
    lastSuccessfulTime: Time | None = field(5, doc="When a job last succeeded.")


class JobTemplateSpec(Type):
    """What the jobs of a cron job look like."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: JobSpec = field(2)
