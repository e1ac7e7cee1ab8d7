"""batch/v1beta1: the types of v1; the differences are below."""

from __future__ import annotations

from kapiserver.api.batch import v1
from kapiserver.api.types import inherit_types, override_field

inherit_types(
    __name__,
    v1,
    only=(
        "CronJob",
        "CronJobStatus",
        "JobTemplateSpec",
    ),
)


class CronJobSpec(v1.CronJobSpec):
    concurrencyPolicy = override_field(enum=())
    jobTemplate = override_field(required=False)
