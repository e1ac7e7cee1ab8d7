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

    name: str = field(1, always=True, required=True, doc="The head of the column.")
    type: str = field(2, always=True, required=True, doc="The type of the cells.")
    format: str = field(3, doc="The format.")
    description: str = field(4, doc="What it is, for people.")
    priority: int32 = field(5, doc="Above 0: for wide output alone.")
    jsonPath: str = field(6, always=True, required=True, doc="Where the value is.")


class CustomResourceConversion(Type):
    """How custom resources get from version to version."""

    strategy: str = field(1, always=True, required=True, doc="None or Webhook.")
    webhook: WebhookConversion | None = field(2, doc="How the webhook is asked.")


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
    preserveUnknownFields: bool = field(10, doc="Deprecated: whether no field is unknown.")


class CustomResourceDefinitionStatus(Type):
    """What is known of a definition."""

    conditions: list[CustomResourceDefinitionCondition] = field(
        1, always=True, keys=("type",), doc="What was found out about it."
    )
    acceptedNames: CustomResourceDefinitionNames = field(2, doc="The names in use.")
    storedVersions: list[str] = field(
        3, always=True, doc="Versions in which objects may be stored."
    )
    observedGeneration: int64 = field(4, doc="The generation that this is about.")


class CustomResourceDefinitionVersion(Type):
    """One version of a custom resource."""

    name: str = field(1, always=True, doc="The version.", required=True)
    served: bool = field(2, always=True, doc="Whether clients may use it.", required=True)
    storage: bool = field(3, always=True, doc="Whether objects are stored in it.", required=True)
    deprecated: bool = field(7, doc="Whether clients are warned of it.")
    deprecationWarning: str | None = field(8, doc="What they are told.")
    schema: CustomResourceValidation | None = field(4, doc="What objects look like.")
    subresources: CustomResourceSubresources | None = field(5, doc="Subresources of it.")
    additionalPrinterColumns: list[CustomResourceColumnDefinition] = field(
        6, doc="Columns of its table."
    )
    selectableFields: list[SelectableField] = field(9, doc="Fields that field selectors can use.")


class CustomResourceSubresourceScale(Type):
    """Where the numbers of `scale` are."""

    specReplicasPath: str = field(1, always=True, required=True, doc="Where the number wanted is.")
    statusReplicasPath: str = field(
        2, always=True, required=True, doc="Where the number there is is."
    )
    labelSelectorPath: str | None = field(3, doc="Where the selector of its pods is.")


class CustomResourceSubresourceStatus(Type):
    """Turns `status` on."""


class CustomResourceSubresources(Type):
    """Which subresources there are."""

    status: CustomResourceSubresourceStatus | None = field(
        1, doc="The status is written by itself."
    )
    scale: CustomResourceSubresourceScale | None = field(2, doc="It can be scaled.")


class CustomResourceValidation(Type):
    """The schema of a custom resource."""

    openAPIV3Schema: JSONSchemaProps | None = field(1, doc="The schema.")


class ExternalDocumentation(Type):
    """Where to read more."""

    description: str = field(1, doc="What it is, for people.")
    url: str = field(2, doc="Where it is reached.")


class JSON(FreeJSON):
    """Any JSON in a schema: a default, an example, a value allowed."""


class JSONSchemaProps(Type):
    """A JSON schema."""

    id: str = field(1, doc="A name of the schema; not allowed.")
    schema: str = field(
        2, json="$schema", proto="schema", doc="The schema of the schema; not allowed."
    )
    ref: str | None = field(3, json="$ref", proto="ref", doc="Another schema; not allowed.")
    description: str = field(4, doc="What it is, for people.")
    type: str = field(5, doc="string, integer, number, boolean, object or array.")
    format: str = field(6, doc="What a string or number is, as date-time or int32.")
    title: str = field(7, doc="A short name, for people.")
    default: JSON | None = field(8, doc="What is taken where nothing is said.")
    maximum: double | None = field(9, doc="The largest number.")
    exclusiveMaximum: bool = field(10, doc="Whether it must be smaller than that.")
    minimum: double | None = field(11, doc="The smallest number.")
    exclusiveMinimum: bool = field(12, doc="Whether it must be larger than that.")
    maxLength: int64 | None = field(13, doc="The most characters.")
    minLength: int64 | None = field(14, doc="The fewest characters.")
    pattern: str = field(15, doc="A regular expression that must match.")
    maxItems: int64 | None = field(16, doc="The most items.")
    minItems: int64 | None = field(17, doc="The fewest items.")
    uniqueItems: bool = field(18, doc="Whether no item may occur twice; not allowed.")
    multipleOf: double | None = field(19, doc="What the number must be a multiple of.")
    enum: list[JSON] = field(20, doc="The values there are.")
    maxProperties: int64 | None = field(21, doc="The most properties.")
    minProperties: int64 | None = field(22, doc="The fewest properties.")
    required: list[str] = field(23, doc="Properties that must be there.")
    items: JSONSchemaPropsOrArray | None = field(24, doc="What each item must be.")
    allOf: list[JSONSchemaProps] = field(25, doc="All of these must hold.")
    oneOf: list[JSONSchemaProps] = field(26, doc="Exactly one of these must hold.")
    anyOf: list[JSONSchemaProps] = field(27, doc="One of these must hold.")
    not_: JSONSchemaProps | None = field(28, doc="This must not hold.")
    properties: dict[str, JSONSchemaProps] = field(29, doc="What each property must be.")
    additionalProperties: JSONSchemaPropsOrBool | None = field(
        30, doc="What all other properties must be."
    )
    patternProperties: dict[str, JSONSchemaProps] = field(
        31, doc="By patterns of names; not allowed."
    )
    dependencies: dict[str, JSONSchemaPropsOrStringArray] = field(
        32, doc="What properties come with others; not allowed."
    )
    additionalItems: JSONSchemaPropsOrBool | None = field(
        33, doc="What further items must be; not allowed."
    )
    definitions: dict[str, JSONSchemaProps] = field(34, doc="Schemas by name; not allowed.")
    externalDocs: ExternalDocumentation | None = field(35, doc="Where more is written of it.")
    example: JSON | None = field(36, doc="An example.")
    nullable: bool = field(37, doc="Whether it may be null.")
    xKubernetesPreserveUnknownFields: bool | None = field(
        38,
        json="x-kubernetes-preserve-unknown-fields",
        proto="xKubernetesPreserveUnknownFields",
        doc="Whether fields that are not declared are kept.",
    )
    xKubernetesEmbeddedResource: bool = field(
        39,
        json="x-kubernetes-embedded-resource",
        proto="xKubernetesEmbeddedResource",
        doc="Whether it is an object of the API.",
    )
    xKubernetesIntOrString: bool = field(
        40,
        json="x-kubernetes-int-or-string",
        proto="xKubernetesIntOrString",
        doc="Whether it is an integer or a string.",
    )
    xKubernetesListMapKeys: list[str] = field(
        41,
        json="x-kubernetes-list-map-keys",
        proto="xKubernetesListMapKeys",
        doc="Keys that tell items apart.",
    )
    xKubernetesListType: str | None = field(
        42, json="x-kubernetes-list-type", proto="xKubernetesListType", doc="atomic, set or map."
    )
    xKubernetesMapType: str | None = field(
        43, json="x-kubernetes-map-type", proto="xKubernetesMapType", doc="granular or atomic."
    )
    xKubernetesValidations: list[ValidationRule] = field(
        44,
        json="x-kubernetes-validations",
        proto="xKubernetesValidations",
        keys=("rule",),
        merge="rule",
        doc="Rules in CEL.",
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

    jsonPath: str = field(1, always=True, required=True, doc="Where the value is.")


class ServiceReference(Type):
    """The service behind which a webhook is."""

    namespace: str = field(1, always=True, required=True, doc="Its namespace.")
    name: str = field(2, always=True, required=True, doc="Its name.")
    path: str | None = field(3, doc="The path of the URL.")
    port: int32 | None = field(4, doc="The port of the service.")


class ValidationRule(Type):
    """An expression that must be true."""

    rule: str = field(1, always=True, doc="The expression.", required=True)
    message: str = field(2, doc="What is said when it is false.")
    messageExpression: str = field(3, doc="A CEL expression of the message.")
    reason: str | None = field(
        4,
        enum=(
            "FieldValueRequired",
            "FieldValueDuplicate",
            "FieldValueInvalid",
            "FieldValueForbidden",
        ),
        doc="Why, in one word for programs.",
    )
    fieldPath: str = field(5, doc="Path to the field.")
    optionalOldSelf: bool | None = field(
        6, doc="Whether it is checked where there was no value before."
    )


class WebhookClientConfig(Type):
    """How a webhook is reached."""

    url: str | None = field(3, doc="The address, where there is no service.")
    service: ServiceReference | None = field(1, doc="The service, where there is no address.")
    caBundle: bytes = field(2, doc="Certificates to check the server's by, as PEM.")


class WebhookConversion(Type):
    """The webhook that converts."""

    clientConfig: WebhookClientConfig | None = field(2, doc="How the webhook is reached.")
    conversionReviewVersions: list[str] = field(
        3, always=True, required=True, doc="Versions of the review it understands."
    )
