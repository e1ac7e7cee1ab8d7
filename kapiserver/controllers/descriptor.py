"""The record of a controller in the registry. Its factory imports the controller's module."""

from __future__ import annotations

import functools
from collections.abc import Callable
from enum import Enum
from typing import TypeAlias

from msgspec import Struct

from kapiserver.apiserver.user import User
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import AnyController

Factory: TypeAlias = Callable[[ControllerContext], AnyController]


class Scope(Enum):
    """Where a controller runs, if several servers share a store: in every process, also each worker
    of `--workers`; once in every server; or only in the leader of all servers."""

    EVERY_PROCESS = "every process"
    EVERY_SERVER = "every server"
    LEADER = "the leader"


class ControllerDescriptor(Struct, frozen=True, kw_only=True):
    """One controller.

    user        the user of its writes: that of its service account in Kubernetes
    manager     the field manager of its writes
    selectable  whether `--controllers` knows it; the others are kube-apiserver's own and always run
    """

    name: str
    aliases: tuple[str, ...] = ()
    factory: Factory
    user: User
    manager: str = "kube-controller-manager"
    scope: Scope = Scope.LEADER
    selectable: bool = True
    enabled_by_default: bool = True


def _create(load: Callable[[], Factory], context: ControllerContext) -> AnyController:
    return load()(context)


def loaded_by(load: Callable[[], Factory]) -> Factory:
    """Return the factory of a controller whose module is imported when the controller starts."""
    return functools.partial(_create, load)
