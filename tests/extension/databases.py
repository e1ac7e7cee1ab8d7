"""An extension API server for tests: databases in two versions, with functions of every kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from kapiserver.extension import (
    ApiServer,
    Column,
    FieldError,
    Object,
    Path,
    Resource,
    Scale,
    Version,
    forbidden,
)

Engine = Annotated[Literal["postgres", "mysql"], Meta(description="The program to run.")]


SMALL = {"rule": "self.engine != 'mysql' || self.size <= 50", "message": "mysql is for small data"}


class User(Struct, rename="camel"):
    """A user of the database."""

    name: str
    may_write: bool = False


class DatabaseSpec(Struct, rename="camel"):
    """What the owner wants."""

    engine: Engine = "postgres"
    size: Annotated[int, Meta(ge=1, le=100, description="Its size in GiB.")] = 1
    replicas: int = 1
    owner_name: str = ""
    users: Annotated[
        list[User],
        Meta(
            extra_json_schema={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            }
        ),
    ] = field(default_factory=list)


class DatabaseStatus(Struct, rename="camel"):
    """What is there."""

    phase: str = ""
    replicas: int = 0


class Database(Object):
    """A database that the platform runs."""

    spec: Annotated[DatabaseSpec, Meta(extra_json_schema={"x-kubernetes-validations": [SMALL]})]
    status: DatabaseStatus | None = None


class OldSpec(Struct, rename="camel"):
    """What the owner wants."""

    engine: Engine = "postgres"
    size_in_mib: int = 1024


class OldDatabase(Object):
    """A database, as the first version had it."""

    spec: OldSpec
    status: DatabaseStatus | None = None


REPLICAS = "example.com/replicas"


def upgrade(old: OldDatabase) -> Database:
    """Convert from v1alpha1. An annotation keeps what that version has no field for."""
    replicas = old.metadata.annotations.pop(REPLICAS, "1")
    size = max(1, old.spec.size_in_mib // 1024)
    spec = DatabaseSpec(engine=old.spec.engine, size=size, replicas=int(replicas))
    return Database(metadata=old.metadata, spec=spec, status=old.status)


def downgrade(new: Database) -> OldDatabase:
    """Convert to v1alpha1."""
    spec = OldSpec(engine=new.spec.engine, size_in_mib=new.spec.size * 1024)
    return OldDatabase(spec=spec, status=new.status)


def make_databases() -> Resource[Database]:
    """Return the resource, with its functions."""
    databases = Resource(
        Database,
        group="example.com",
        versions=(
            Version(name="v1"),
            Version(
                name="v1alpha1",
                type=OldDatabase,
                to_hub=upgrade,
                from_hub=downgrade,
                columns=(),
                deprecated=True,
            ),
        ),
        short_names=("db",),
        categories=("all",),
        columns=(
            Column(name="Engine", json_path=".spec.engine"),
            Column(name="Size", type="integer", json_path=".spec.size"),
        ),
        selectable_fields=(".spec.engine",),
        scale=Scale(),
    )

    @databases.default
    def set_owner(database: Database) -> None:
        database.spec.owner_name = database.spec.owner_name or "nobody"

    @databases.prepare_for_create
    def begin(database: Database) -> None:
        database.metadata.labels["engine"] = database.spec.engine
        database.status = DatabaseStatus(phase="New")

    @databases.prepare_for_update
    def count(new: Database, old: Database) -> None:
        if new.spec.engine != old.spec.engine:
            new.metadata.annotations["was"] = old.spec.engine
            new.spec.replicas = 1

    @databases.validate
    def check(new: Database, old: Database | None) -> Iterator[FieldError]:
        if old is not None and new.spec.size < old.spec.size:
            yield forbidden(Path("spec.size"), "a database does not shrink")

    @databases.validate_status
    def check_status(new: Database, old: Database) -> Iterator[FieldError]:
        if old.status is not None and new.status is None:
            yield forbidden(Path("status"), "a database keeps its status")

    @databases.warn
    def warn(new: Database, old: Database | None) -> Iterator[str]:
        if new.spec.size > 50:
            yield "large databases cost much"

    return databases


if __name__ == "__main__":
    raise SystemExit(ApiServer([make_databases()]).main())
