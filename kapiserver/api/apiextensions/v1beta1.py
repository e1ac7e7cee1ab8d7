"""apiextensions.k8s.io/v1beta1: the types of v1, but for the differences below."""

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
    JSONPath: str = field(6, always=True)


class CustomResourceConversion(Type):
    """How custom resources get from version to version."""

    strategy: str = field(1, always=True)
    webhookClientConfig: WebhookClientConfig | None = field(2)
    conversionReviewVersions: list[str] = field(3)


class CustomResourceDefinition(v1.CustomResourceDefinition):
    spec = override_field(required=False)


class CustomResourceDefinitionCondition(v1.CustomResourceDefinitionCondition):
    type = override_field(required=False)
    status = override_field(required=False)


class CustomResourceDefinitionNames(v1.CustomResourceDefinitionNames):
    plural = override_field(required=False)
    kind = override_field(required=False)


class CustomResourceDefinitionSpec(Type):
    """Names, scope and versions of a custom resource."""

    group: str = field(1, always=True, doc="The group.")
    version: str = field(2)
    names: CustomResourceDefinitionNames = field(3, doc="How it is called.")
    scope: str = field(4, always=True, doc="Cluster or Namespaced.")
    validation: CustomResourceValidation | None = field(5)
    subresources: CustomResourceSubresources | None = field(6)
    versions: list[CustomResourceDefinitionVersion] = field(7, doc="All versions.")
    additionalPrinterColumns: list[CustomResourceColumnDefinition] = field(8)
    selectableFields: list[SelectableField] = field(11)
    conversion: CustomResourceConversion | None = field(
        9, doc="How objects get from version to version."
    )
    preserveUnknownFields: bool | None = field(10)


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
