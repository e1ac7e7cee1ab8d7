"""Chooses the plans of an exploration from the history of a plain run. Pure.

A point matters if something happened there: a write of the operator that changed an object, or an
event that the operator saw and a write followed. Points without an effect make no plan.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from msgspec import Struct

from kapiserver.exploring.history import OPERATOR, WORKLOAD, Commit, History, Request
from kapiserver.exploring.plans import Injection, Plan, Point, step_point
from kapiserver.exploring.states import Names


class WritePoint(Struct, frozen=True):
    """A write of the operator that changed an object, its point and its first commit."""

    point: Point
    request: Request
    commit: Commit


def make_plans(history: History, names: Names, seed: int) -> list[Plan]:
    """Return the plans for the history of a plain run, the most promising first, none twice. The
    kinds of plans take turns, so that the first plans have some of each kind. The seed orders plans
    that are equally promising."""
    rng = random.Random(seed)
    rounds = []
    for injections in _kinds(history, names):
        plans = [Plan((injection,)) for injection in injections]
        rng.shuffle(plans)
        rounds.append(sorted(plans, key=_rank))
    turns = zip_longest(*rounds)
    return list(dict.fromkeys(plan for turn in turns for plan in turn if plan is not None))


def _rank(plan: Plan) -> int:
    """Return 0 for what is most promising: deletions, then creations, then the rest; writes of a
    status come last."""
    point = plan.injections[0].point
    if point.subresource == "status":
        return 3
    return {"delete": 0, "deletecollection": 0, "create": 1}.get(point.verb, 2)


def _kinds(history: History, names: Names) -> Iterator[Sequence[Injection]]:
    points = write_points(history, names)
    yield _crashes_after_commit(points)
    yield _stops(history)
    yield _crashes_before(history, points)


def write_points(history: History, names: Names) -> list[WritePoint]:
    """Return the operator's writes that changed an object, in their order."""
    commits = {commit.position: commit for commit in history.commits}
    counts: Counter[Point] = Counter()
    points = []
    for request in history.operator_writes:
        kind = Point(request.verb, names.normalise(request.object), request.subresource, 0)
        counts[kind] += 1
        if request.commits:
            point = Point(kind.verb, kind.object, kind.subresource, counts[kind])
            points.append(WritePoint(point, request, commits[request.commits[0]]))
    return points


def _crashes_after_commit(points: Sequence[WritePoint]) -> list[Injection]:
    return [Injection("crash-commit", item.point) for item in points]


def _crashes_before(history: History, points: Sequence[WritePoint]) -> list[Injection]:
    """Return crashes before writes. After the commit of the write before, the state is the same if
    nobody else has written in between: such a crash is a plan already."""
    injections, last = [], 0
    for item in points:
        others = [
            commit
            for commit in history.commits
            if last < commit.position < item.request.position and commit.actor != OPERATOR
        ]
        if others or not last:
            injections.append(Injection("crash-before", item.point))
        last = item.commit.position
    return injections


def _stops(history: History) -> list[Injection]:
    """Return stops during each step that writes, with the restart before the next step."""
    injections = []
    steps = [mark for mark in history.marks if mark.step is not None]
    for mark, following in zip_longest(steps, steps[1:]):
        end = following.position if following is not None else float("inf")
        if mark.step and any(
            commit.actor == WORKLOAD and mark.position < commit.position < end
            for commit in history.commits
        ):
            index = mark.step
            injections.append(Injection("down", step_point(index), step_point(index + 1)))
    return injections
