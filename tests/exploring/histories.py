"""Builds histories for tests of planner and oracles."""

from __future__ import annotations

from typing import Any

from kapiserver.exploring.history import (
    OPERATOR,
    OTHER,
    SERVER,
    WORKLOAD,
    Commit,
    History,
    Mark,
    ObjectRef,
    OpenedWatch,
    Request,
)

Tree = dict[str, Any]


def ref(resource: str, name: str) -> ObjectRef:
    """Return an object of the namespace default."""
    return ObjectRef(resource, "default", name)


class Builder:
    """Makes a history call by call; each call is the next position."""

    def __init__(self) -> None:
        self.history = History()
        self._position = 0
        self._objects: dict[ObjectRef, Tree] = {}
        self._uids: dict[ObjectRef, str] = {}
        self._marks: list[Mark] = []
        self._requests: list[Request] = []
        self._commits: list[Commit] = []
        self._watches: list[OpenedWatch] = []

    def _next(self) -> int:
        self._position += 1
        return self._position

    def step(self, index: int) -> None:
        """Begin a step."""
        self._marks.append(Mark(self._next(), f"step {index}", index))

    def watch(self, resource: str) -> None:
        """Open a watch of the operator."""
        self._watches.append(OpenedWatch(self._next(), resource, ""))

    def request(self, verb: str, target: ObjectRef, **fields: Any) -> Request:
        """Add a request of the operator that commits nothing."""
        request = Request(
            position=self._next(), actor=OPERATOR, instance=1, verb=verb, object=target, **fields
        )
        self._requests.append(request)
        return request

    def operator(
        self, verb: str, target: ObjectRef, new: Tree | None = None, **fields: Any
    ) -> None:
        """Add a write of the operator and its commit."""
        request = self.request(verb, target, status=200, **fields)
        self._commit(OPERATOR, target, new, request)

    def workload(self, target: ObjectRef, new: Tree | None) -> None:
        """Add a write of the workload; None deletes."""
        self._commit(WORKLOAD, target, new, None)

    def other(self, target: ObjectRef, new: Tree) -> None:
        """Add a write of another writer."""
        self._commit(OTHER, target, new, None)

    def mark(self, text: str) -> None:
        """Add what a plan did."""
        self._marks.append(Mark(self._next(), text))

    def server(self, target: ObjectRef, new: Tree | None) -> None:
        """Add a write of a controller; None deletes."""
        self._commit(SERVER, target, new, None)

    def _commit(self, actor: str, target: ObjectRef, new: Tree | None, request: Request | None):
        old = self._objects.pop(target, None)
        operation = "deleted" if new is None else "created" if old is None else "updated"
        if operation == "created":
            earlier = self._uids.get(target)
            self._uids[target] = f"uid of {target}" if earlier is None else f"{earlier}, again"
        if new is not None:
            new = {"metadata": {}} | new
            new["metadata"] = {"name": target.name, "uid": self._uids[target]} | new["metadata"]
            self._objects[target] = new
        position = self._next()
        if request is not None:
            request.commits.append(position)
        self._commits.append(
            Commit(
                position=position,
                revision=position,
                actor=actor,
                request=None if request is None else request.position,
                object=target,
                operation=operation,
                old=old,
                new=new,
            )
        )

    def build(self, **fields: Any) -> History:
        """Return the history; its final state is what the commits left."""
        return History(
            requests=self._requests,
            commits=self._commits,
            watches=self._watches,
            marks=self._marks,
            final=dict(self._objects),
            **fields,
        )
