"""imagepolicy.k8s.io/v1alpha1: reviews of whether the images of a pod may run."""

from __future__ import annotations

from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.types import Kind, Type, field


class ImageReview(Kind):
    """Asks a webhook whether the images of a pod may run."""

    listed = False

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata, such as its name, labels and owners."
    )
    spec: ImageReviewSpec = field(
        2, doc="The images and the pod they are for. Set by the API server."
    )
    status: ImageReviewStatus = field(3, doc="Whether the images may run. Set by the webhook.")


class ImageReviewContainerSpec(Type):
    """One container of the pod under review."""

    image: str = field(1, doc="Image of the container, as image:tag or image@sha256:digest.")


class ImageReviewSpec(Type):
    """The images and the pod that they are for."""

    containers: list[ImageReviewContainerSpec] = field(
        1, doc="The containers of the pod under review and their images."
    )
    annotations: dict[str, str] = field(
        2,
        doc=(
            "Annotations of the pod whose keys match *.image-policy.k8s.io/*, for use by the "
            "webhook."
        ),
    )
    namespace: str = field(3, doc="Namespace in which the pod is created.")


class ImageReviewStatus(Type):
    """The decision about the images."""

    allowed: bool = field(1, always=True, doc="True if all images may run.")
    reason: str = field(2, doc="Why the images may not run, for people; may be empty if allowed.")
    auditAnnotations: dict[str, str] = field(
        3,
        doc=(
            "Annotations for the audit event of the pod's request. The server puts the admission "
            "plugin's name before each key."
        ),
    )
