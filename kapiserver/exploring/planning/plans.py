"""What a plan does to an operator, and when: points of a run and injections at them.

A plan has a text form, which `--plan` takes: `crash-before@create:configmaps:default:db:1`. Several
injections are joined by `+`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import quote, unquote

from msgspec import Struct

from kapiserver.exploring.history import WRITE_VERBS, ObjectRef
from kapiserver.exploring.planning.refusals import parse_refusal
from kapiserver.exploring.planning.variation import parse_variation

STEP = "step"
"""The verb of points before steps."""


class Point(Struct, frozen=True, order=True):
    """A moment of a run that other runs have, too.

    verb        the verb of a request of the operator; STEP: the moment before a step
    object      the object of the request; its name is normalised
    subresource the subresource of the request
    number      the how many-th of its kind, from 1; the index of the step
    """

    verb: str
    object: ObjectRef
    subresource: str
    number: int

    @property
    def is_write(self) -> bool:
        """Whether it is a write of the operator."""
        return self.verb in WRITE_VERBS

    def __str__(self) -> str:
        if self.verb == STEP:
            return f"step {self.number + 1}"
        resource, _, path = str(self.object).partition(" ")
        subresource = f"/{self.subresource}" if self.subresource else ""
        return f"{self.verb} {resource}{subresource} {path}".rstrip() + _ordinal(self.number)

    def to_text(self) -> str:
        """Return the point as a text that `parse_point` reads."""
        resource = self.object.resource
        if self.subresource:
            resource = f"{resource}/{self.subresource}"
        parts = (self.verb, resource, self.object.namespace, self.object.name, str(self.number))
        return ":".join(quote(part, safe="/*.-_") for part in parts)


def _ordinal(number: int) -> str:
    return f" (time {number})" if number > 1 else ""


def step_point(index: int) -> Point:
    """Return the point before a step; the number of steps is the end."""
    return Point(STEP, ObjectRef("", "", ""), "", index)


def parse_point(text: str) -> Point:
    """Return the point of a text. Raises ValueError."""
    parts = [unquote(part) for part in text.split(":")]
    if len(parts) != 5 or not parts[4].isdigit():
        raise ValueError(f"{text!r} is not a point: write verb:resource:namespace:name:number")
    verb, resource, namespace, name, number = parts
    resource, _, subresource = resource.partition("/")
    return Point(verb, ObjectRef(resource, namespace, name), subresource, int(number))


class Injection(Struct, frozen=True, order=True):
    """One thing that a plan does.

    action      one of ACTIONS
    point       when
    until       when it ends, for actions that last; None: when the operator has settled
    argument    what the action needs to know, such as a status and a number of times
    """

    action: str
    point: Point
    until: Point | None = None
    argument: str = ""

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise ValueError(f"{self.action!r} is not an action; write {', '.join(ACTIONS)}")
        _ARGUMENTS.get(self.action, str)(self.argument)

    def __str__(self) -> str:
        settled = "when the operator had settled"
        until = settled if self.until is None else f"just before {self.until}"
        parse = _ARGUMENTS.get(self.action, str)
        return ACTIONS[self.action].format(
            point=self.point, until=until, argument=parse(self.argument)
        )

    def to_text(self) -> str:
        """Return the injection as a text that `parse_plan` reads."""
        text = f"{self.action}@{self.point.to_text()}"
        if self.until is not None:
            text += f"@{self.until.to_text()}"
        return f"{text}={quote(self.argument, safe='')}" if self.argument else text


ACTIONS: Mapping[str, str] = {
    "crash-before": "was killed before {point}, and restarted",
    "crash-commit": "was killed after the commit of {point}, before the response, and restarted",
    "crash-idle": "was killed before {point}, and restarted",
    "down": "was killed before {point}, and started again {until}",
    "lose-response": "got no response to {point}, which was committed",
    "refuse": "was refused {point} with {argument}",
    "webhook": "was refused {point} by a webhook that could not be called, {argument}",
    "quota": "was refused {point} by an exceeded quota, {argument}",
    "conflict": "met another writer, who changed the object just before {point}",
    "stale": "was restarted before {point}, and saw the state before {argument}, as from an API "
    "server that lags behind, until it had settled",
    "delay": "got the events of {argument} late: from {point} on, they came {until}",
    "miss": "missed the events of {argument} from {point} on, and had to list again {until}",
    "overlap": "ran twice, as in a rolling update: a second instance was started before {point}, "
    "and the first one was stopped {until}",
    "takeover": "was paused before {point}, and went on when another instance had taken over",
    "advance": "saw the clock jump by {argument} s before {point}",
    "expire": "got 401 for its {argument} from {point} on, because it had expired; its kubeconfig "
    "had a new one",
    "age": "was left alone for an hour before {point}, ten minutes at a time",
    "vary": "saw the change of {argument}, and back, after the workload",
    "upgrade": "was the earlier version until {point}, and was upgraded then",
}
"""What was done to the operator, by action. Without a point `until`, an action that lasts ends when
the operator has settled."""


ONCE = "once"
"""The argument of an obstacle that refuses one write."""
MAX_OBSTRUCTED = 10
"""How many writes an obstacle refuses at most. An operator that tries again without a rest never
settles while it is refused."""


def _parse_once(argument: str) -> str:
    if argument not in ("", ONCE):
        raise ValueError(f"{argument!r} is not how often a write is refused: {ONCE}, or nothing")
    return argument or f"until it had settled, or {MAX_OBSTRUCTED} times"


TOKEN, CERTIFICATE = "token", "certificate"
"""The credentials of an operator that expire."""


def _parse_credential(argument: str) -> str:
    if argument not in (TOKEN, CERTIFICATE):
        raise ValueError(f"{argument!r} is not a credential; write {TOKEN} or {CERTIFICATE}")
    return argument


_ARGUMENTS: Mapping[str, Callable[[str], object]] = {
    "refuse": parse_refusal,
    "webhook": _parse_once,
    "quota": _parse_once,
    "expire": _parse_credential,
    "stale": parse_point,
    "vary": parse_variation,
}
"""What parses the argument of an action. Raises ValueError."""


class Plan(Struct, frozen=True, order=True):
    """The injections of one run; without any, the workload runs as it is."""

    injections: tuple[Injection, ...] = ()

    def has(self, action: str) -> bool:
        """Whether it does something."""
        return any(injection.action == action for injection in self.injections)

    @property
    def expiring(self) -> str:
        """The credential that expires, or ""."""
        expiring = (item.argument for item in self.injections if item.action == "expire")
        return next(expiring, "")

    @property
    def sentence(self) -> str:
        """What was done to the operator."""
        if not self.injections:
            return "Nothing was done to the operator."
        return f"The operator {'; it '.join(map(str, self.injections))}."

    def to_text(self) -> str:
        """Return the plan as `--plan` takes it."""
        return "+".join(injection.to_text() for injection in self.injections)


PLAIN = Plan()


def parse_plan(text: str) -> Plan:
    """Return the plan of a text. Raises ValueError."""
    return Plan(tuple(_parse_injection(part) for part in text.split("+") if part))


def _parse_injection(text: str) -> Injection:
    text, _, argument = text.partition("=")
    action, *points = text.split("@")
    if not 1 <= len(points) <= 2:
        raise ValueError(f"{text!r} is not an injection: write action@point")
    until = parse_point(points[1]) if len(points) == 2 else None
    return Injection(action, parse_point(points[0]), until, unquote(argument))
