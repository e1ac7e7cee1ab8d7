"""The sample API server of Kubernetes, k8s.io/sample-apiserver, in Python.

    python flunders.py --kubeconfig host.kubeconfig --tls-cert-file ... --tls-private-key-file ...

A flunder refers to a flunder or to a fischer, and a fischer lists names of flunders. The newer
version of flunders has a field for each of the two.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import Meta, Struct

from kapiserver.extension import (
    ApiServer,
    FieldError,
    Object,
    Path,
    Resource,
    Version,
    invalid,
)

GROUP = "wardle.example.com"
Reference = Literal["", "Flunder", "Fischer"]


class FlunderSpec(Struct, rename="camel", frozen=True):
    """What a flunder refers to."""

    reference: Annotated[str, Meta(description="The name of a flunder or fischer.")] = ""
    reference_type: Annotated[Reference, Meta(description="Which of the two it is.")] = ""


class FlunderStatus(Struct):
    """Nothing."""


class Flunder(Object):
    """A flunder, as the first version has it."""

    spec: FlunderSpec = FlunderSpec()
    status: FlunderStatus | None = None


class NewSpec(Struct, rename="camel", frozen=True):
    """What a flunder refers to: one field has a value."""

    flunder_reference: Annotated[str, Meta(description="The name of a flunder.")] = ""
    fischer_reference: Annotated[str, Meta(description="The name of a fischer.")] = ""
    reference_type: Annotated[Reference, Meta(description="Which of the two counts.")] = ""


class NewFlunder(Object):
    """A flunder, as the second version has it."""

    spec: NewSpec = NewSpec()
    status: FlunderStatus | None = None


class Fischer(Object, rename="camel"):
    """A list of names that no flunder may have."""

    disallowed_flunders: Annotated[
        list[str], Meta(description="Names that no flunder may have.")
    ] = []


def upgrade(flunder: Flunder) -> NewFlunder:
    """Return a flunder of the second version."""
    spec = flunder.spec
    field = "fischer_reference" if spec.reference_type == "Fischer" else "flunder_reference"
    references = {field: spec.reference}
    new = NewSpec(reference_type=spec.reference_type, **references)
    return NewFlunder(spec=new, status=flunder.status)


def downgrade(flunder: NewFlunder) -> Flunder:
    """Return a flunder of the first version."""
    spec = flunder.spec
    reference = (
        spec.fischer_reference if spec.reference_type == "Fischer" else spec.flunder_reference
    )
    old = FlunderSpec(reference=reference, reference_type=spec.reference_type)
    return Flunder(spec=old, status=flunder.status)


flunders = Resource(
    Flunder,
    group=GROUP,
    versions=[
        Version(name="v1alpha1"),
        Version(name="v1beta1", type=NewFlunder, to_hub=downgrade, from_hub=upgrade),
    ],
)
fischers = Resource(Fischer, group=GROUP, version="v1alpha1", namespaced=False)


@flunders.validate
def check(new: Flunder, old: Flunder | None) -> Iterator[FieldError]:
    """A reference has a type, and a type has a reference."""
    spec = new.spec
    if bool(spec.reference) != bool(spec.reference_type):
        yield invalid(Path("spec.referenceType"), spec.reference_type, "cannot be empty")


if __name__ == "__main__":
    sys.exit(ApiServer([flunders, fischers]).main())
