"""Chooses the plans of an exploration from the history of a plain run. Pure.

A point matters if something happened there: a write of the operator that changed an object, or an
event that the operator saw and a write followed. Points without an effect make no plan.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, zip_longest

from msgspec import Struct

from kapiserver.exploring.history import (
    LEASES,
    OPERATOR,
    WORKLOAD,
    Commit,
    History,
    Mark,
    ObjectRef,
    Request,
)
from kapiserver.exploring.names import Names
from kapiserver.exploring.planning.plans import (
    CERTIFICATE,
    ONCE,
    STEP,
    TOKEN,
    Injection,
    Plan,
    Point,
    parse_point,
    step_point,
)
from kapiserver.exploring.planning.refusals import READS, REFUSALS

ORDERED = ("conflict", "down", "miss", "refuse", "quota", "webhook")
"""Actions whose plans are in the order in which they should run."""
WHILE = 3
"""Requests that a refusal for a while refuses."""
JUMP_SECONDS = 4000
"""Seconds of a jump of the clock: more than an hour, after which Events and tokens expire."""


class WritePoint(Struct, frozen=True):
    """A write of the operator that changed an object, its point and its first commit."""

    point: Point
    request: Request
    commit: Commit


class Choice(Struct, frozen=True, kw_only=True):
    """What plans may do.

    seed                    orders plans that are equally promising
    stale_reads             whether reads of the newest revision may be old in a stale view
    has_earlier_version     whether there is an earlier version of the operator
    variations              changes of custom resources
    """

    seed: int = 0
    stale_reads: bool = False
    has_earlier_version: bool = False
    variations: Sequence[Injection] = ()


class Facts(Struct, frozen=True, kw_only=True):
    """What planners need to know of a plain run.

    writes          the operator's writes that changed an object
    replacements    its updates that changed nothing, and would undo a change of another writer
    reads           its last reads before each of these writes
    steps           the starts of the steps
    changing        the indices of the steps in which the workload writes, after the first
    places          the indices of the steps in which writes come
    """

    history: History
    writes: Sequence[WritePoint]
    replacements: Sequence[Point]
    reads: Sequence[Point]
    steps: Sequence[Mark]
    changing: Sequence[int]
    places: Mapping[Point, int]

    def first_step(self, plan: Plan) -> int:
        """Return the index of the first step that a plan needs: before it, the run is as it is
        without the plan. The earlier version of an operator runs from the beginning, and reads are
        counted from there, because an operator reads more when it is restarted."""
        points = [injection.point for injection in plan.injections]
        if plan.has("upgrade") or any(point.verb in READS for point in points):
            return 0
        points += [
            parse_point(injection.argument)
            for injection in plan.injections
            if injection.action == "stale"
        ]
        return min(
            point.number if point.verb == STEP else self.places.get(point, 0) for point in points
        )

    def step_at(self, position: int) -> int:
        """Return the index of the step at a position, -1 before the first one."""
        return _step_at(self.steps, position)

    def steps_changing(self, reference: ObjectRef) -> set[int]:
        """Return the indices of the steps in which the workload writes an object."""
        return {
            self.step_at(commit.position)
            for commit in self.history.commits
            if commit.actor == WORKLOAD and commit.object == reference
        }

    @property
    def watched_resources(self) -> list[str]:
        """The resources that the operator watches, in the order in which it began."""
        return list(dict.fromkeys(watch.resource for watch in self.history.watches))


def _step_at(steps: Sequence[Mark], position: int) -> int:
    return sum(mark.position < position for mark in steps) - 1


def learn_facts(history: History, names: Names) -> Facts:
    """Return what planners need to know of a plain run."""
    steps = [mark for mark in history.marks if mark.step is not None]
    by_workload = {
        _step_at(steps, commit.position) for commit in history.commits if commit.actor == WORKLOAD
    }
    commits = {commit.position: commit for commit in history.commits}
    points = list(_points(history, names))
    return Facts(
        history=history,
        writes=[
            WritePoint(point, request, commits[request.commits[0]])
            for point, request in points
            if request.commits
        ],
        replacements=[
            point
            for point, request in points
            if request.verb == "update" and request.status == 200 and not request.commits
        ],
        reads=list(_last_reads(points, steps)),
        steps=steps,
        changing=sorted(by_workload - {-1}),
        places={point: _step_at(steps, request.position) for point, request in points},
    )


def make_plans(facts: Facts, options: Choice) -> list[Plan]:
    """Return the plans for the history of a plain run, the most promising first, none twice. The
    kinds of plans take turns, so that the first plans have some of each kind. The seed orders plans
    that are equally promising. Expiries come last: an operator may read its files again only after
    minutes."""
    rng = random.Random(options.seed)
    rounds = []
    for injections in _kinds(facts, options):
        plans = [Plan((injection,)) for injection in injections]
        if plans and plans[0].injections[0].action not in ORDERED:
            rng.shuffle(plans)
            plans.sort(key=_rank)
        rounds.append(plans)
    plans = [plan for turn in zip_longest(*rounds) for plan in turn if plan is not None]
    # Whoever asks for variations wants to see them: they are every second plan.
    variations = [Plan((injection,)) for injection in options.variations]
    plans = [plan for pair in zip_longest(variations, plans) for plan in pair if plan is not None]
    return list(dict.fromkeys([*plans, *_expiries(facts)]))


def _rank(plan: Plan) -> int:
    """Return 0 for what is most promising. Of stale views, those of the state before a deletion
    come first."""
    injection = plan.injections[0]
    is_stale = injection.action == "stale"
    return _rank_point(parse_point(injection.argument) if is_stale else injection.point)


def _rank_point(point: Point) -> int:
    """Return 0 for the most promising points: deletions, then creations, then the rest; writes of a
    status come last."""
    if point.subresource == "status":
        return 3
    return {"delete": 0, "deletecollection": 0, "create": 1}.get(point.verb, 2)


def _kinds(facts: Facts, options: Choice) -> Iterator[Sequence[Injection]]:
    """Yield the injections of each kind, without variations."""
    yield _crashes_after_commit(facts)
    yield _stops(facts)
    yield _conflicts(facts)
    yield _missed_events(facts)
    yield _refusals(facts, 1)
    yield _refused_reads(facts, 1)
    yield _delays(facts)
    yield _lost_responses(facts)
    yield _stale_views(facts, every_read=options.stale_reads)
    yield _instances(facts)
    yield _crashes_before(facts)
    yield _refused_by_admission(facts)
    yield _refusals(facts, WHILE)
    yield _refused_reads(facts, WHILE)
    yield _upgrades(facts) if options.has_earlier_version else ()
    yield _clock_jumps(facts)
    yield [Injection("age", step_point(len(facts.steps)))]


def _points(history: History, names: Names) -> Iterator[tuple[Point, Request]]:
    """Yield the operator's reads and writes, in their order, with their points."""
    counts: Counter[Point] = Counter()
    for request in history.operator_requests:
        kind = Point(request.verb, names.normalise(request.object), request.subresource, 0)
        counts[kind] += 1
        yield Point(kind.verb, kind.object, kind.subresource, counts[kind]), request


def _last_reads(points: Sequence[tuple[Point, Request]], steps: Sequence[Mark]) -> Iterator[Point]:
    """Yield the last get and the last list before each write that changed an object, once each. The
    reads before the first step are those of the operator's start, which it may not survive."""
    last: dict[str, Point] = {}
    for point, request in points:
        if request.verb in READS and steps and request.position > steps[0].position:
            last[request.verb] = point
        elif request.commits:
            yield from last.values()
            last.clear()


def _crashes_after_commit(facts: Facts) -> list[Injection]:
    return [Injection("crash-commit", item.point) for item in facts.writes]


def _lost_responses(facts: Facts) -> list[Injection]:
    return [Injection("lose-response", item.point) for item in facts.writes]


def _crashes_before(facts: Facts) -> list[Injection]:
    """Return crashes before writes. After the commit of the write before, the state is the same if
    nobody else has written in between: such a crash is a plan already."""
    injections, last = [], 0
    for item in facts.writes:
        others = [
            commit
            for commit in facts.history.commits
            if last < commit.position < item.request.position and commit.actor != OPERATOR
        ]
        if others or not last:
            injections.append(Injection("crash-before", item.point))
        last = item.commit.position
    return injections


def _stops(facts: Facts) -> list[Injection]:
    """Return stops during each step in which the workload writes, and during all steps that write
    from one on."""
    spans = _spans(facts)
    return [Injection("down", step_point(first), step_point(end)) for first, end in spans if first]


def _spans(facts: Facts) -> list[tuple[int, int]]:
    """Return the spans of steps in which the workload writes, each with the step after its end:
    pairs of steps that delete an object and create it again, single steps, the other pairs."""
    single = [(index, index + 1) for index in facts.changing]
    pairs = [(first, second + 1) for first, second in pairwise(facts.changing)]
    recreations = [
        (first, end)
        for first, end in pairs
        if _objects(facts, "deleted", first, end) & _objects(facts, "created", end - 1, end)
    ]
    return list(dict.fromkeys([*recreations, *single, *pairs]))


def _objects(facts: Facts, operation: str, first: int, end: int) -> set[ObjectRef]:
    """Return the objects that are created, or deleted, in a span of steps."""
    return {
        commit.object
        for commit in facts.history.commits
        if commit.operation == operation and first <= facts.step_at(commit.position) < end
    }


def _conflicts(facts: Facts) -> list[Injection]:
    """Return changes by another writer before writes of objects that exist and stay. The last
    writes come first, because a later change of the workload hides what an earlier one lost."""
    changes = [
        item.point
        for item in facts.writes
        if item.point.verb in ("update", "patch")
        and item.commit.operation == "updated"
        and not item.commit.metadata.get("deletionTimestamp")
    ]
    points = sorted([*reversed(changes), *facts.replacements], key=_rank_point)
    return [Injection("conflict", point) for point in points]


def _refusals(facts: Facts, times: int) -> list[Injection]:
    """Return refusals of each write: the ways of refusing take turns over the writes, so that the
    first plans have each way."""
    injections = []
    writes = sorted(facts.writes, key=lambda item: _rank_point(item.point))
    ways = list(REFUSALS)
    for shift in range(len(ways)):
        for number, item in enumerate(writes):
            way = ways[(number + shift) % len(ways)]
            if item.point.verb in REFUSALS[way].verbs:
                argument = way if times == 1 else f"{way}*{times}"
                injections.append(Injection("refuse", item.point, None, argument))
    return injections


def _refused_reads(facts: Facts, times: int) -> list[Injection]:
    """Return refusals of the reads that matter; the ways take turns over the reads."""
    ways = [way for way, refusal in REFUSALS.items() if "get" in refusal.verbs]
    injections = []
    for shift in range(len(ways)):
        for number, point in enumerate(facts.reads):
            way = ways[(number + shift) % len(ways)]
            argument = way if times == 1 else f"{way}*{times}"
            injections.append(Injection("refuse", point, None, argument))
    return injections


def _refused_by_admission(facts: Facts) -> list[Injection]:
    """Return writes that a webhook refuses, and creations that a quota refuses: first until the
    operator has settled, then once."""
    return [
        Injection(action, item.point, None, argument)
        for argument in ("", ONCE)
        for item in facts.writes
        for action in ("quota", "webhook")
        if action == "webhook" or (item.point.verb == "create" and item.point.object.namespace)
    ]


def _missed_events(facts: Facts) -> list[Injection]:
    """Return gaps in the watches: the events of one resource in a span of steps are folded, and the
    operator lists again."""
    return [
        Injection("miss", step_point(first), step_point(end), resource)
        for first, end in _spans(facts)
        for resource in facts.watched_resources
        if _is_seen_in(facts, resource, first, end)
    ]


def _is_seen_in(facts: Facts, resource: str, first: int, end: int) -> bool:
    """Whether a resource has events in a span of steps."""
    return any(
        commit.object.resource == resource and first <= facts.step_at(commit.position) < end
        for commit in facts.history.commits
    )


def _delays(facts: Facts) -> list[Injection]:
    """Return delays of the events that a write of the operator causes, so that it does not see what
    it has done itself; and delays of one resource in a step, if it watches several."""
    watched = facts.watched_resources
    own = [
        Injection("delay", item.point, None, item.point.object.resource)
        for item in facts.writes
        if item.point.object.resource in watched
    ]
    steps = [
        Injection("delay", step_point(index), None, resource)
        for index in facts.changing
        for resource in watched
        if len(watched) > 1 and _is_seen_in(facts, resource, index, index + 1)
    ]
    return [*steps, *own]


def _stale_views(facts: Facts, *, every_read: bool) -> list[Injection]:
    """Return restarts with the state before an earlier step or deletion, if the operator reads in a
    way that allows an old state."""
    reads_any = any(
        request.actor == OPERATOR and "resourceVersion=0" in request.uri.split("?")[-1].split("&")
        for request in facts.history.requests
    )
    if not (reads_any or every_read):
        return []
    positions = {step_point(index): facts.steps[index].position for index in facts.changing}
    positions |= {
        item.point: item.request.position for item in facts.writes if item.point.verb == "delete"
    }
    since = sorted(positions, key=lambda point: -positions[point])
    ends = [*facts.changing[1:], len(facts.steps)]
    return [
        Injection("stale", step_point(end), None, point.to_text())
        for end in reversed(ends)
        for point in since
        if end == len(facts.steps) or positions[point] < facts.steps[end].position
    ]


def _instances(facts: Facts) -> list[Injection]:
    """Return takeovers from the leader if the operator has a Lease, else overlaps of two instances
    in each step."""
    has_lease = any(
        request.actor == OPERATOR and request.object.resource == LEASES and request.is_write
        for request in facts.history.requests
    )
    if has_lease:
        return [Injection("takeover", item.point) for item in facts.writes]
    return [Injection("overlap", step_point(index)) for index in facts.changing]


def _clock_jumps(facts: Facts) -> list[Injection]:
    return [
        Injection("advance", step_point(index), None, str(JUMP_SECONDS))
        for index in facts.changing[1:]
    ]


def _expiries(facts: Facts) -> list[Plan]:
    """Return expiries of the operator's own credentials before the last step that writes."""
    return [
        Plan((Injection("expire", step_point(index), None, credential),))
        for index in facts.changing[-1:]
        for credential in (TOKEN, CERTIFICATE)
    ]


def _upgrades(facts: Facts) -> list[Injection]:
    """Return upgrades before each step that writes, and at the end."""
    return [
        Injection("upgrade", step_point(index)) for index in [*facts.changing[1:], len(facts.steps)]
    ]
