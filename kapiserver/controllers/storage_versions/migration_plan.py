"""What a migration of stored objects is to do next, and its conditions: pure.

    conditions that are true    the migration                      next
    none                        waits for others of its resource   Running
    Running                     lists and patches the objects      Running and Succeeded, or Failed
    Running and a final one     is over                            the final one
    Succeeded or Failed         is over

At most one migration of a resource runs. Mirrors pkg/controller/storageversionmigrator.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from kapiserver.api.accessors import name_of, value_at
from kapiserver.api.types import Tree

RUNNING, SUCCEEDED, FAILED = "Running", "Succeeded", "Failed"
_FINAL = (SUCCEEDED, FAILED)


class Steps(Struct, frozen=True):
    """The migrations of one resource that need a step, by what it is.

    to_close    are over, but still say that they run
    running     the one that runs
    to_start    the one that runs next; None while another runs
    """

    to_close: Sequence[Tree]
    running: Tree | None
    to_start: Tree | None


def steps_of(migrations: Iterable[Tree]) -> Steps:
    """Return the steps of all migrations of one resource. The oldest one starts first."""
    to_close: list[Tree] = []
    running: list[Tree] = []
    waiting: list[Tree] = []
    for migration in migrations:
        if is_true(migration, RUNNING):
            (to_close if is_over(migration) else running).append(migration)
        elif not is_over(migration):
            waiting.append(migration)
    waiting.sort(
        key=lambda migration: (
            value_at(migration, "metadata", "creationTimestamp"),
            name_of(migration),
        )
    )
    return Steps(
        to_close,
        running[0] if running else None,
        waiting[0] if waiting and not running else None,
    )


def is_true(migration: Tree, type_: str) -> bool:
    """Return whether a condition is true."""
    conditions = value_at(migration, "status", "conditions") or ()
    return any(
        condition["type"] == type_ and condition["status"] == "True" for condition in conditions
    )


def is_over(migration: Tree) -> bool:
    """Return whether a migration succeeded or failed."""
    return any(is_true(migration, type_) for type_ in _FINAL)


def with_condition(migration: Tree, condition: Tree, now: str) -> Tree:
    """Return a migration with a condition set; its lastTransitionTime changes with its status.
    Mirrors SetStatusCondition of k8s.io/apimachinery."""
    status = migration.get("status") or {}
    conditions = list(status.get("conditions") or ())
    updated = {**condition, "lastTransitionTime": now}
    for index, current in enumerate(conditions):
        if current["type"] == condition["type"]:
            if current["status"] == condition["status"]:
                updated["lastTransitionTime"] = current["lastTransitionTime"]
            conditions[index] = {**current, **updated}
            break
    else:
        conditions.append(updated)
    return {**migration, "status": {**status, "conditions": conditions}}


def running_condition(remaining: int = 0, total: int = 0, problem: str = "") -> Tree:
    """Return the condition of a migration that runs, with the objects that are left to do."""
    message = "The migration is running"
    if total and remaining:
        message += f", {remaining}/{total} objects not yet migrated"
    elif total:
        message += f", {total} objects verified migrated"
    if problem:
        message += f"; transient error: {problem}"
    return _condition(RUNNING, "MigrationRunning", message)


def closed_condition() -> Tree:
    """Return the condition of a migration that does not run any more."""
    closed = _condition(RUNNING, "MigrationCompleted", "Migration completed")
    return {**closed, "status": "False"}


def succeeded_condition() -> Tree:
    """Return the condition of a migration that is complete."""
    return _condition(SUCCEEDED, "StorageVersionMigrationSucceeded", "Migration completed")


def failed_condition(message: str) -> Tree:
    """Return the condition of a migration that cannot be completed."""
    return _condition(FAILED, "StorageVersionMigrationFailed", message)


def _condition(type_: str, reason: str, message: str) -> Tree:
    return {"type": type_, "status": "True", "reason": reason, "message": message}


# The definition of a custom resource.


def migrating_status(definition: Tree, migration: str, now: str) -> Tree:
    """Return what a definition's status says while a migration runs."""
    return {
        "conditions": [
            _definition_condition(
                definition, "True", "MigrationRunning", f"Migration {migration} is running", now
            )
        ]
    }


def migrated_status(definition: Tree, *, succeeded: bool, now: str) -> Tree:
    """Return what a definition's status says after a migration. Only the storage version is stored
    any more, unless the definition changed while the migration ran."""
    conditions = value_at(definition, "status", "conditions") or ()
    generation = value_at(definition, "metadata", "generation")
    is_same = any(
        condition["type"] == "StorageMigrating"
        and condition.get("observedGeneration") == generation
        for condition in conditions
    )
    reason, message = "MigrationFailed", "The migration has failed"
    if succeeded:
        reason, message = "MigrationSucceeded", "The migration has succeeded"
        message += (
            " and the stored versions have been updated"
            if is_same
            else " but the stored versions have not been updated due to a generation mismatch"
        )
    status: Tree = {
        "conditions": [_definition_condition(definition, "False", reason, message, now)]
    }
    if succeeded and is_same:
        versions = definition["spec"]["versions"]
        status["storedVersions"] = [
            version["name"] for version in versions if version.get("storage")
        ]
    return status


def _definition_condition(
    definition: Tree, status: str, reason: str, message: str, now: str
) -> Tree:
    return {
        "type": "StorageMigrating",
        "status": status,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
        "observedGeneration": value_at(definition, "metadata", "generation"),
    }
