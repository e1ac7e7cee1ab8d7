"""imagepolicy.k8s.io/v1alpha1: whether images may run."""

from __future__ import annotations

from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.types import Kind, Type, field


class ImageReview(Kind):
    """Asks whether the images of a pod may run."""

    listed = False

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: ImageReviewSpec = field(2, doc="What is asked.")
    status: ImageReviewStatus = field(3, doc="The answer.")


class ImageReviewContainerSpec(Type):
    """One image."""

    image: str = field(1)


class ImageReviewSpec(Type):
    """The images, and what the pod says of them."""

    containers: list[ImageReviewContainerSpec] = field(1)
    annotations: dict[str, str] = field(2)
    namespace: str = field(3)


class ImageReviewStatus(Type):
    """Whether, and why not."""

    allowed: bool = field(1, always=True)
    reason: str = field(2)
    auditAnnotations: dict[str, str] = field(3)
