"""apiextensions.k8s.io/v1: custom resources."""

from __future__ import annotations

from kapiserver.api.apiextensions.leaves import (
    FreeJSON,
    SchemaOrBool,
    SchemaOrNames,
    SchemaOrSchemas,
)
from kapiserver.api.leaves import RawExtension, Time
from kapiserver.api.meta.v1 import ObjectMeta, Status
from kapiserver.api.types import Kind, Type, double, field, int32, int64


class ConversionRequest(Type):
    """Objects that a webhook shall convert."""

    uid: str = field(1, always=True)
    desiredAPIVersion: str = field(2, always=True)
    objects: list[RawExtension] = field(3, always=True)


class ConversionResponse(Type):
    """The objects in the version asked for."""

    uid: str = field(1, always=True)
    convertedObjects: list[RawExtension] = field(2, always=True)
    result: Status = field(3)


class ConversionReview(Kind):
    """A question to a converting webhook, or its answer."""

    listed = False

    request: ConversionRequest | None = field(1)
    response: ConversionResponse | None = field(2)


class CustomResourceColumnDefinition(Type):
    """One column of a custom resource's table."""

    name: str = field(1, always=True, required=True)
    type: str = field(2, always=True, required=True)
    format: str = field(3)
    description: str = field(4)
    priority: int32 = field(5)
    jsonPath: str = field(6, always=True, required=True)


class CustomResourceConversion(Type):
    """How custom resources get from version to version."""

    strategy: str = field(1, always=True, required=True)
    webhook: WebhookConversion | None = field(2)


class CustomResourceDefinition(Kind):
    """A resource made of data alone."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: CustomResourceDefinitionSpec = field(2, doc="The desired state.", required=True)
    status: CustomResourceDefinitionStatus = field(3, doc="The observed state.")


class CustomResourceDefinitionCondition(Type):
    """One finding about a definition."""

    type: str = field(1, always=True, doc="What the finding is about.", required=True)
    status: str = field(2, always=True, doc="True, False or Unknown.", required=True)
    lastTransitionTime: Time = field(3, doc="When the status last changed.")
    reason: str = field(4, doc="Why, in one word for programs.")
    message: str = field(5, doc="Why, for people.")
    observedGeneration: int64 = field(6, doc="The generation this was found for.")


class CustomResourceDefinitionNames(Type):
    """How a custom resource is called."""

    plural: str = field(1, always=True, doc="The name in addresses.", required=True)
    singular: str = field(2, doc="What people call one of them.")
    shortNames: list[str] = field(3, doc="Shorter names for people.")
    kind: str = field(4, always=True, doc="The kind.", required=True)
    listKind: str = field(5, doc="The kind of its lists.")
    categories: list[str] = field(6, doc="Words that mean this and others.")


class CustomResourceDefinitionSpec(Type):
    """Names, scope and versions of a custom resource."""

    group: str = field(1, always=True, doc="The group.", required=True)
    names: CustomResourceDefinitionNames = field(3, doc="How it is called.", required=True)
    scope: str = field(4, always=True, doc="Cluster or Namespaced.", required=True)
    versions: list[CustomResourceDefinitionVersion] = field(
        7, always=True, doc="All versions.", required=True
    )
    conversion: CustomResourceConversion | None = field(
        9, doc="How objects get from version to version."
    )
    preserveUnknownFields: bool = field(10)


class CustomResourceDefinitionStatus(Type):
    """What is known of a definition."""

    conditions: list[CustomResourceDefinitionCondition] = field(1, always=True, keys=("type",))
    acceptedNames: CustomResourceDefinitionNames = field(2, doc="The names in use.")
    storedVersions: list[str] = field(
        3, always=True, doc="Versions in which objects may be stored."
    )
    observedGeneration: int64 = field(4)


class CustomResourceDefinitionVersion(Type):
    """One version of a custom resource."""

    name: str = field(1, always=True, doc="The version.", required=True)
    served: bool = field(2, always=True, doc="Whether clients may use it.", required=True)
    storage: bool = field(3, always=True, doc="Whether objects are stored in it.", required=True)
    deprecated: bool = field(7)
    deprecationWarning: str | None = field(8)
    schema: CustomResourceValidation | None = field(4, doc="What objects look like.")
    subresources: CustomResourceSubresources | None = field(5, doc="Subresources of it.")
    additionalPrinterColumns: list[CustomResourceColumnDefinition] = field(
        6, doc="Columns of its table."
    )
    selectableFields: list[SelectableField] = field(9)


class CustomResourceSubresourceScale(Type):
    """Where the numbers of `scale` are."""

    specReplicasPath: str = field(1, always=True, required=True)
    statusReplicasPath: str = field(2, always=True, required=True)
    labelSelectorPath: str | None = field(3)


class CustomResourceSubresourceStatus(Type):
    """Turns `status` on."""


class CustomResourceSubresources(Type):
    """Which subresources there are."""

    status: CustomResourceSubresourceStatus | None = field(1)
    scale: CustomResourceSubresourceScale | None = field(2)


class CustomResourceValidation(Type):
    """The schema of a custom resource."""

    openAPIV3Schema: JSONSchemaProps | None = field(1)


class ExternalDocumentation(Type):
    """Where to read more."""

    description: str = field(1)
    url: str = field(2)


class JSON(FreeJSON):
    """Any JSON in a schema: a default, an example, a value allowed."""


class JSONSchemaProps(Type):
    """A JSON schema."""

    id: str = field(1)
    schema: str = field(2, json="$schema", proto="schema")
    ref: str | None = field(3, json="$ref", proto="ref")
    description: str = field(4)
    type: str = field(5)
    format: str = field(6)
    title: str = field(7)
    default: JSON | None = field(8)
    maximum: double | None = field(9)
    exclusiveMaximum: bool = field(10)
    minimum: double | None = field(11)
    exclusiveMinimum: bool = field(12)
    maxLength: int64 | None = field(13)
    minLength: int64 | None = field(14)
    pattern: str = field(15)
    maxItems: int64 | None = field(16)
    minItems: int64 | None = field(17)
    uniqueItems: bool = field(18)
    multipleOf: double | None = field(19)
    enum: list[JSON] = field(20)
    maxProperties: int64 | None = field(21)
    minProperties: int64 | None = field(22)
    required: list[str] = field(23)
    items: JSONSchemaPropsOrArray | None = field(24)
    allOf: list[JSONSchemaProps] = field(25)
    oneOf: list[JSONSchemaProps] = field(26)
    anyOf: list[JSONSchemaProps] = field(27)
    not_: JSONSchemaProps | None = field(28)
    properties: dict[str, JSONSchemaProps] = field(29)
    additionalProperties: JSONSchemaPropsOrBool | None = field(30)
    patternProperties: dict[str, JSONSchemaProps] = field(31)
    dependencies: dict[str, JSONSchemaPropsOrStringArray] = field(32)
    additionalItems: JSONSchemaPropsOrBool | None = field(33)
    definitions: dict[str, JSONSchemaProps] = field(34)
    externalDocs: ExternalDocumentation | None = field(35)
    example: JSON | None = field(36)
    nullable: bool = field(37)
    xKubernetesPreserveUnknownFields: bool | None = field(
        38, json="x-kubernetes-preserve-unknown-fields", proto="xKubernetesPreserveUnknownFields"
    )
    xKubernetesEmbeddedResource: bool = field(
        39, json="x-kubernetes-embedded-resource", proto="xKubernetesEmbeddedResource"
    )
    xKubernetesIntOrString: bool = field(
        40, json="x-kubernetes-int-or-string", proto="xKubernetesIntOrString"
    )
    xKubernetesListMapKeys: list[str] = field(
        41, json="x-kubernetes-list-map-keys", proto="xKubernetesListMapKeys"
    )
    xKubernetesListType: str | None = field(
        42, json="x-kubernetes-list-type", proto="xKubernetesListType"
    )
    xKubernetesMapType: str | None = field(
        43, json="x-kubernetes-map-type", proto="xKubernetesMapType"
    )
    xKubernetesValidations: list[ValidationRule] = field(
        44,
        json="x-kubernetes-validations",
        proto="xKubernetesValidations",
        keys=("rule",),
        merge="rule",
    )


class JSONSchemaPropsOrArray(SchemaOrSchemas):
    """A schema for all items, or one for each."""

    schema: JSONSchemaProps | None = field(1)
    jSONSchemas: list[JSONSchemaProps] = field(2)


class JSONSchemaPropsOrBool(SchemaOrBool):
    """A schema for what else there is, or whether there may be any."""

    allows: bool = field(1)
    schema: JSONSchemaProps | None = field(2)


class JSONSchemaPropsOrStringArray(SchemaOrNames):
    """A schema, or the names of the fields that must be there too."""

    schema: JSONSchemaProps | None = field(1)
    property: list[str] = field(2)


class SelectableField(Type):
    """A field that field selectors know."""

    jsonPath: str = field(1, always=True, required=True)


class ServiceReference(Type):
    """The service behind which a webhook is."""

    namespace: str = field(1, always=True, required=True)
    name: str = field(2, always=True, required=True)
    path: str | None = field(3)
    port: int32 | None = field(4)


class ValidationRule(Type):
    """An expression that must be true."""

    rule: str = field(1, always=True, doc="The expression.", required=True)
    message: str = field(2, doc="What is said when it is false.")
    messageExpression: str = field(3)
    reason: str | None = field(
        4,
        enum=(
            "FieldValueRequired",
            "FieldValueDuplicate",
            "FieldValueInvalid",
            "FieldValueForbidden",
        ),
    )
    fieldPath: str = field(5)
    optionalOldSelf: bool | None = field(6)


class WebhookClientConfig(Type):
    """How a webhook is reached."""

    url: str | None = field(3, doc="The address, where there is no service.")
    service: ServiceReference | None = field(1, doc="The service, where there is no address.")
    caBundle: bytes = field(2, doc="Certificates to check the server's by, as PEM.")


class WebhookConversion(Type):
    """The webhook that converts."""

    clientConfig: WebhookClientConfig | None = field(2)
    conversionReviewVersions: list[str] = field(3, always=True, required=True)
