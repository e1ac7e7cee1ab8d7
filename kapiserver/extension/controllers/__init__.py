"""Controllers of declared classes, in a few lines.

    @reconciles(Database, owns=[StatefulSet], finalizer="example.com/backup")
    class DatabaseController(Controller[Database]):
        async def reconcile(self, database: Database) -> float | None: ...
        async def finalize(self, database: Database) -> float | None: ...

    if __name__ == "__main__":
        sys.exit(Manager([DatabaseController]).main())

The same class runs in an extension API server, `ApiServer([databases], [DatabaseController])`,
against any cluster, and in a test. See docs/how-to/extension-controllers.md.
"""

from kapiserver.extension.controllers.controller import Controller, owner_reference, reconciles
from kapiserver.extension.controllers.manager import Manager, RunningControllers

__all__ = [
    "Controller", "Manager", "RunningControllers", "owner_reference",
    "reconciles",
]  # fmt: skip
