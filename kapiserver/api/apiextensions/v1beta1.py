"""apiextensions.k8s.io/v1beta1: the types of v1; the differences are below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapiserver.api.apiextensions import v1
from kapiserver.api.types import Type, field, inherit_types, override_field, remove_field

if TYPE_CHECKING:
    from kapiserver.api.apiextensions.v1 import (
        CustomResourceSubresources,
        CustomResourceValidation,
        WebhookClientConfig,
    )

inherit_types(__name__, v1, without=("WebhookConversion",))


class CustomResourceColumnDefinition(v1.CustomResourceColumnDefinition):
    jsonPath = remove_field()
    name = override_field(required=False)
    type = override_field(required=False)
    JSONPath: str = field(
        6,
        always=True,
        doc=(
            "JSON path of the cell's value in the custom resource, such as .spec.replicas; it "
            "starts with a dot. v1 spells it jsonPath."
        ),
    )


class CustomResourceConversion(Type):
    """How custom resources are converted between the versions of their definition."""

    strategy: str = field(
        1,
        always=True,
        doc=(
            "None changes only apiVersion; Webhook calls an external webhook, which "
            "webhookClientConfig must then name."
        ),
    )
    webhookClientConfig: WebhookClientConfig | None = field(
        2,
        doc=(
            "Address and trust roots of the webhook. Required for strategy Webhook, forbidden for "
            "None."
        ),
    )
    conversionReviewVersions: list[str] = field(
        3,
        doc=(
            "ConversionReview versions that the webhook accepts, best first. Defaults to v1beta1."
        ),
    )


class CustomResourceDefinition(v1.CustomResourceDefinition):
    spec = override_field(required=False)


class CustomResourceDefinitionCondition(v1.CustomResourceDefinitionCondition):
    type = override_field(required=False)
    status = override_field(required=False)


class CustomResourceDefinitionNames(v1.CustomResourceDefinitionNames):
    plural = override_field(required=False)
    kind = override_field(required=False)


class CustomResourceDefinitionSpec(v1.CustomResourceDefinitionSpec):
    group = override_field(required=False)
    version: str = field(
        2,
        before="names",
        doc=(
            "Deprecated: use versions. Name of the first version; if both are set, it must be "
            "versions[0].name."
        ),
    )
    names = override_field(required=False)
    scope = override_field(
        required=False,
        doc=(
            "Namespaced for objects in namespaces (the default), Cluster for objects without one. "
            "Cannot be updated once the definition is established."
        ),
    )
    validation: CustomResourceValidation | None = field(
        5, before="versions", doc="Schema of all versions. Excludes a schema in any of versions."
    )
    subresources: CustomResourceSubresources | None = field(
        6,
        before="versions",
        doc="Subresources of all versions. Excludes subresources in any of versions.",
    )
    versions = override_field(
        always=False,
        required=False,
        doc=(
            "All versions of the resource. Exactly one must have storage set. Defaults to one "
            "version with the name in version."
        ),
    )
    additionalPrinterColumns: list[CustomResourceColumnDefinition] = field(
        8,
        before="conversion",
        doc=(
            "Columns that kubectl prints for all versions, by default only Age. Excludes columns "
            "in any of versions."
        ),
    )
    selectableFields: list[SelectableField] = field(
        11,
        before="conversion",
        doc=(
            "Fields of all versions that field selectors can use, at most 8. Excludes "
            "selectableFields in any of versions."
        ),
    )
    preserveUnknownFields: bool | None = field(  # type: ignore[assignment] # a pointer here
        10,
        doc=(
            "Whether to keep fields that the schema does not declare. Defaults to true; false "
            "needs a structural schema."
        ),
    )


class CustomResourceDefinitionVersion(v1.CustomResourceDefinitionVersion):
    name = override_field(required=False)
    served = override_field(required=False)
    storage = override_field(required=False)


class CustomResourceSubresourceScale(v1.CustomResourceSubresourceScale):
    specReplicasPath = override_field(required=False)
    statusReplicasPath = override_field(required=False)


class SelectableField(v1.SelectableField):
    jsonPath = override_field(required=False)


class ServiceReference(v1.ServiceReference):
    namespace = override_field(required=False)
    name = override_field(required=False)


class ValidationRule(v1.ValidationRule):
    rule = override_field(required=False)
