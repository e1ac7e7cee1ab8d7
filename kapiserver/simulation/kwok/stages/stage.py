"""A compiled Stage. Mirrors lifecycle.go of kwok's pkg/utils/lifecycle."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import orjson

from kapiserver.api.accessors import name_of
from kapiserver.api.errors import NotRegistered
from kapiserver.api.group import GroupVersion, GroupVersionKind
from kapiserver.api.types import Tree
from kapiserver.simulation.kwok.stages.expressions import StageError, duration, weight
from kapiserver.simulation.kwok.stages.rendering import parse_template
from kapiserver.simulation.kwok.stages.selectors import Requirement, requirements_of
from kapiserver.simulation.templates.errors import TemplateError
from kapiserver.simulation.templates.template import Template


@dataclass(frozen=True)
class TemplateStep:
    """A patch of the object, or the application of another one.

    settings  the fields `root`, `subresource`, `type` and `impersonation` of the step
    """

    template: Template
    settings: Tree


@dataclass(frozen=True)
class Step:
    """One step of a stage. Each part may be missing."""

    event: Tree | None = None
    finalizers: Tree | None = None
    delete: bool = False
    patch: TemplateStep | None = None
    apply: TemplateStep | None = None


@dataclass(frozen=True)
class Stage:
    """A Stage that compiles.

    kind            the kind of its objects
    requirements    what an object fulfils; None if no object can
    weight          returns the weight for an object at a time; None if it cannot be read
    delay, jitter   return the ends of the range of delays for an object at a time; None: no delay
    """

    name: str
    kind: GroupVersionKind
    requirements: Sequence[Requirement] | None
    weight: Callable[[Tree, float], int | None]
    delay: Callable[[Tree, float], float | None] | None
    jitter: Callable[[Tree, float], float | None] | None
    steps: Sequence[Step]

    def selects(self, obj: Tree, now: float) -> bool:
        """Report whether the stage applies to an object."""
        requirements = self.requirements
        return requirements is not None and all(holds(obj, now) for holds in requirements)

    def delays(self, obj: Tree, now: float) -> tuple[float, ...]:
        """Return the seconds that the stage waits: none, the seconds, or the ends of a range."""
        least = None if self.delay is None else self.delay(obj, now)
        if least is None:
            return ()
        most = None if self.jitter is None else self.jitter(obj, now)
        if most is None:
            return (least,)
        return (most,) if most <= least else (least, most)


def compile_stage(stage: Tree) -> Stage:
    """Return a compiled Stage, the same one for the same name and spec. Raises StageError."""
    return _compile(name_of(stage), orjson.dumps(stage.get("spec") or {}))


@functools.lru_cache(maxsize=1024)
def _compile(name: str, text: bytes) -> Stage:
    spec = orjson.loads(text)
    selector, delay = spec.get("selector"), spec.get("delay") or {}
    milliseconds, source = delay.get("jitterDurationMilliseconds"), delay.get("jitterDurationFrom")
    has_jitter = milliseconds is not None or source is not None
    return Stage(
        name=name,
        kind=kind_of_stage(spec),
        requirements=None if selector is None else requirements_of(selector),
        weight=weight(spec.get("weight") or 0, spec.get("weightFrom")),
        delay=_least_delay(spec["delay"]) if spec.get("delay") is not None else None,
        jitter=duration(milliseconds, source) if has_jitter else None,
        steps=[_step(step) for step in steps_of(spec)],
    )


def _least_delay(delay: Tree) -> Callable[[Tree, float], float | None]:
    return duration(delay.get("durationMilliseconds") or 0, delay.get("durationFrom"))


def kind_of_stage(spec: Tree) -> GroupVersionKind:
    """Return the kind that a Stage is for. Raises StageError."""
    reference = spec.get("resourceRef") or {}
    try:
        version = GroupVersion.parse(reference.get("apiGroup") or "v1")
    except (NotRegistered, ValueError) as error:
        raise StageError(f"resourceRef: {error}") from None
    return version.with_kind(reference.get("kind") or "")


def steps_of(spec: Tree) -> Iterator[Tree]:
    """Yield the steps of a spec: `steps`, or else those that `next` stands for."""
    if spec.get("steps"):
        yield from spec["steps"]
        return
    following = spec.get("next") or {}
    yield from ({name: following[name]} for name in ("event", "finalizers") if following.get(name))
    if following.get("patches"):
        yield from ({"patch": patch} for patch in following["patches"])
    elif following.get("statusTemplate"):
        patch = {
            "subresource": following.get("statusSubresource", "status"),
            "root": "status",
            "template": following["statusTemplate"],
        }
        if following.get("statusPatchAs"):
            patch["impersonation"] = following["statusPatchAs"]
        yield {"patch": patch}
    if following.get("delete"):
        yield {"delete": True}


def _step(step: Tree) -> Step:
    return Step(
        event=step.get("event"),
        finalizers=step.get("finalizers"),
        delete=bool(step.get("delete")),
        patch=_template_step(step.get("patch")),
        apply=_template_step(step.get("apply")),
    )


def _template_step(step: Tree | None) -> TemplateStep | None:
    if step is None:
        return None
    try:
        return TemplateStep(parse_template(step.get("template") or ""), step)
    except TemplateError as error:
        raise StageError(f"template: {error}") from None
