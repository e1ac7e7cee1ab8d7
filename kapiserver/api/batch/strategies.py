"""Strategies of the batch group."""

from __future__ import annotations

from kapiserver.api.accessors import (
    generation_of,
    labels_of,
    metadata_of,
    name_of,
    uid_of,
    value_at,
)
from kapiserver.api.batch import v1
from kapiserver.api.batch.declarative_rules import CRON_JOB
from kapiserver.api.batch.validation.cron_jobs import validate_cron_job, validate_cron_job_update
from kapiserver.api.batch.validation.job_status import validate_job_status_update
from kapiserver.api.batch.validation.jobs import (
    CONTROLLER_LABELS,
    NAME_LABELS,
    validate_job,
    validate_job_update,
)
from kapiserver.api.core import warnings
from kapiserver.api.core.pods.disabled_fields import drop_disabled_template_fields
from kapiserver.api.core.pods.warnings import warnings_for_pod
from kapiserver.api.core.v1 import PodTemplateSpec
from kapiserver.api.errors import FieldError, Path
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.meta.v1 import LabelSelector, ObjectMeta
from kapiserver.api.strategy import SpecStrategy, StatusStrategy, Strategy
from kapiserver.api.types import Tree

_MANY_COMPLETIONS = 100_000
_MANY_PARALLEL = 10_000
_JOB_SPEC = ("spec", "jobTemplate", "spec")
_JOB_POD_TEMPLATE = (*_JOB_SPEC, "template")


class JobStrategy(SpecStrategy):
    """The strategy of jobs. Unless `manualSelector` is set, the server generates a unique selector
    and matching labels."""

    orphans_by_default = True
    deletion_warning = (
        "child pods are preserved by default when jobs are deleted; set "
        "propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress "
        "this warning"
    )

    def prepare_for_create(self, obj: Tree) -> None:
        drop_disabled_template_fields(obj, None, "spec", "template")
        _drop_disabled_scheduling(obj, None, "spec")
        super().prepare_for_create(obj)
        spec = obj.setdefault("spec", {})
        if not spec.get("manualSelector"):
            _generate_selector(obj)
        reorder_keys(spec, v1.JobSpec)
        labels = labels_of(spec.get("template") or {})
        if labels and not labels_of(obj):  # the default, which depends on generated labels
            metadata_of(obj)["labels"] = dict(labels)

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        drop_disabled_template_fields(new, old, "spec", "template")
        _drop_disabled_scheduling(new, old, "spec")
        super().prepare_for_update(new, old)

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_job(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_job_update(new, old))

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        if old is not None and generation_of(new) == generation_of(old):
            return []
        messages = warnings_for_job_spec(new.get("spec") or {}, Path("spec"))
        return (
            messages
            if old is not None
            else [*warnings.warnings_for_controller_name(new), *messages]
        )


def _drop_disabled_scheduling(new: Tree, old: Tree | None, *path: str) -> None:
    # The feature gate WorkloadWithJob is off by default in 1.37.
    if value_at(old or {}, *path, "scheduling") is None:
        (value_at(new, *path) or {}).pop("scheduling", None)


def _generate_selector(obj: Tree) -> None:
    spec = obj["spec"]
    template = spec.setdefault("template", {})
    labels = {
        **{key: name_of(obj) for key in NAME_LABELS},
        **{key: uid_of(obj) for key in CONTROLLER_LABELS},
        **labels_of(template),
    }
    metadata_of(template)["labels"] = dict(sorted(labels.items()))
    reorder_keys(template["metadata"], ObjectMeta)
    reorder_keys(template, PodTemplateSpec)
    key = CONTROLLER_LABELS[-1]
    selector = spec["selector"] = dict(spec.get("selector") or {})
    match_labels = {key: uid_of(obj), **(selector.get("matchLabels") or {})}
    selector["matchLabels"] = dict(sorted(match_labels.items()))
    reorder_keys(selector, LabelSelector)


def warnings_for_job_spec(spec: Tree, path: Path) -> list[str]:
    """Return the warnings about a job or a job template."""
    messages = []
    if (
        spec.get("completionMode") == "Indexed"
        and (spec.get("completions") or 0) > _MANY_COMPLETIONS
        and (spec.get("parallelism") or 0) > _MANY_PARALLEL
    ):
        messages.append(
            "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism "
            "higher than 10^4, Kubernetes might not be able to track completedIndexes when a big "
            "number of indexes fail"
        )
    return [
        *messages,
        *warnings_for_pod(spec.get("template") or {}, path / "template"),
    ]


class CronJobStrategy(SpecStrategy):
    """The strategy of cron jobs."""

    declarative_rules = CRON_JOB

    def prepare_for_create(self, obj: Tree) -> None:
        drop_disabled_template_fields(obj, None, *_JOB_POD_TEMPLATE)
        _drop_disabled_scheduling(obj, None, *_JOB_SPEC)
        super().prepare_for_create(obj)

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        drop_disabled_template_fields(new, old, *_JOB_POD_TEMPLATE)
        _drop_disabled_scheduling(new, old, *_JOB_SPEC)
        super().prepare_for_update(new, old)

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_cron_job(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_cron_job_update(new, old))

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        messages = []
        if old is None or generation_of(new) != generation_of(old):
            template = value_at(new, "spec", "jobTemplate", "spec") or {}
            messages = warnings_for_job_spec(template, Path("spec") / "jobTemplate" / "spec")
        if "TZ" in (value_at(new, "spec", "schedule") or ""):
            messages.append(
                "CRON_TZ or TZ used in spec.spec.schedule is not officially supported, see "
                "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more "
                "details"
            )
        return (
            messages
            if old is not None
            else [*warnings.warnings_for_controller_name(new), *messages]
        )


_CRON_JOB = CronJobStrategy()
_JOB = JobStrategy()

STRATEGIES: dict[str, Strategy] = {
    "cronjobs": _CRON_JOB,
    "cronjobs/status": StatusStrategy(_CRON_JOB),
    "jobs": _JOB,
    "jobs/status": StatusStrategy(_JOB, validate_status=validate_job_status_update),
}
