"""The library for extension API servers: classes and functions become an API.

    class DatabaseSpec(Struct):
        size: Annotated[int, Meta(ge=1, le=100, description="Its size in GiB.")] = 1

    class Database(Object):
        spec: DatabaseSpec

    databases = Resource(Database, group="example.com", short_names=("db",))

    if __name__ == "__main__":
        sys.exit(ApiServer([databases]).main())

The server serves these resources alone, by itself or behind the aggregator of a cluster. Importing
this package loads no server: `ApiServer` does when it starts. See docs/how-to/extension-server.md.
"""

from kapiserver.api.errors import FieldError, Path, duplicate, forbidden, invalid, required
from kapiserver.extension.api_server import ApiServer
from kapiserver.extension.call import Call
from kapiserver.extension.objects import Object, ObjectMeta, OwnerReference
from kapiserver.extension.resources import Column, Resource, Scale, Version
from kapiserver.extension.sources import ObjectSource

__all__ = [
    "ApiServer", "Call", "Column", "FieldError", "Object", "ObjectMeta", "ObjectSource",
    "OwnerReference", "Path", "Resource", "Scale", "Version", "duplicate", "forbidden", "invalid",
    "required",
]  # fmt: skip
