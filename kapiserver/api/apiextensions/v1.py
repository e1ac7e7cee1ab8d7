"""apiextensions.k8s.io/v1: CustomResourceDefinitions and the reviews of conversion webhooks."""

from __future__ import annotations

from kapiserver.api.apiextensions.schema_variants import (
    FreeJSON,
    SchemaOrBool,
    SchemaOrNames,
    SchemaOrSchemas,
)
from kapiserver.api.meta.v1 import ObjectMeta, Status
from kapiserver.api.scalar_types import RawExtension, Time
from kapiserver.api.types import Kind, Type, double, field, int32, int64


class ConversionRequest(Type):
    """The objects that a conversion webhook is asked to convert."""

    uid: str = field(
        1,
        always=True,
        doc="Identifies this request among all conversion requests; the response must repeat it.",
    )
    desiredAPIVersion: str = field(
        2, always=True, doc="Group and version to convert the objects to, such as example.com/v1."
    )
    objects: list[RawExtension] = field(
        3, always=True, doc="The custom resources to convert, each in its own version."
    )


class ConversionResponse(Type):
    """The converted objects, or the failure, that a conversion webhook answers with."""

    uid: str = field(1, always=True, doc="The uid of the request that this response answers.")
    convertedObjects: list[RawExtension] = field(
        2,
        always=True,
        doc=(
            "The converted objects, in the order of request.objects. Their names, namespaces and "
            "uids must not change. Empty if the conversion failed."
        ),
    )
    result: Status = field(
        3,
        doc=(
            "Success, or Failure with a message for the user. On Failure the API request that "
            "needed the conversion fails."
        ),
    )


class ConversionReview(Kind):
    """The body of a call to a conversion webhook, and of its answer."""

    listed = False

    request: ConversionRequest | None = field(
        1, doc="What to convert. Set by the API server when it calls the webhook."
    )
    response: ConversionResponse | None = field(
        2, doc="The converted objects, or the error. Set by the webhook."
    )


class CustomResourceColumnDefinition(Type):
    """One column that kubectl prints for a custom resource."""

    name: str = field(1, always=True, required=True, doc="Header of the column, such as Replicas.")
    type: str = field(
        2,
        always=True,
        required=True,
        doc="Type of the column: boolean, date, integer, number or string.",
    )
    format: str = field(
        3,
        doc=(
            "Format within the type: byte, date, date-time, double, float, int32, int64 or "
            "password."
        ),
    )
    description: str = field(4, doc="What the column shows, for people.")
    priority: int32 = field(
        5,
        doc=(
            "How dispensable the column is. Columns above 0 are printed in wide output only. "
            "Defaults to 0."
        ),
    )
    jsonPath: str = field(
        6,
        always=True,
        required=True,
        doc=(
            "JSON path of the cell's value in the custom resource, such as .spec.replicas; it "
            "starts with a dot."
        ),
    )


class CustomResourceConversion(Type):
    """How custom resources are converted between the versions of their definition."""

    strategy: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "None changes only apiVersion; Webhook calls an external webhook, which webhook must "
            "then configure."
        ),
    )
    webhook: WebhookConversion | None = field(
        2, doc="How to call the webhook. Required for strategy Webhook, forbidden for None."
    )


class CustomResourceDefinition(Kind):
    """A new kind of object for the API: its names, scope, versions and schemas. The server serves
    it once the definition is established."""

    metadata: ObjectMeta = field(
        1,
        doc=(
            "Standard object's metadata. The name must be spec.names.plural and spec.group joined "
            "by a dot."
        ),
    )
    spec: CustomResourceDefinitionSpec = field(
        2, doc="Names, scope, versions and schemas of the custom resource.", required=True
    )
    status: CustomResourceDefinitionStatus = field(
        3,
        doc=(
            "Which names are in use, which versions are stored and whether the resource is "
            "served. Written by the server."
        ),
    )


class CustomResourceDefinitionCondition(Type):
    """One aspect of the current state of a CustomResourceDefinition."""

    type: str = field(
        1,
        always=True,
        doc=(
            "Type of the condition: Established, NamesAccepted, NonStructuralSchema, Terminating "
            "or KubernetesAPIApprovalPolicyConformant."
        ),
        required=True,
    )
    status: str = field(
        2,
        always=True,
        doc="Whether the definition meets the condition: True, False or Unknown.",
        required=True,
    )
    lastTransitionTime: Time = field(
        3, doc="When the condition changed from one status to another."
    )
    reason: str = field(
        4,
        doc=(
            "A machine-readable CamelCase reason for the last transition, such as NoConflicts or "
            "InitialNamesAccepted."
        ),
    )
    message: str = field(
        5, doc="Details of the last transition for people, such as which name is already taken."
    )
    observedGeneration: int64 = field(
        6, doc="metadata.generation of the definition that the condition was computed for."
    )


class CustomResourceDefinitionNames(Type):
    """The names under which a custom resource is served and found."""

    plural: str = field(
        1,
        always=True,
        doc=(
            "Plural name of the resource in URLs (/apis/<group>/<version>/.../<plural>), all "
            "lower case. Cannot be updated."
        ),
        required=True,
    )
    singular: str = field(
        2,
        doc=(
            "Singular name of the resource, all lower case, for kubectl. Defaults to kind in "
            "lower case."
        ),
    )
    shortNames: list[str] = field(
        3, doc="Abbreviations that kubectl accepts for the resource, all lower case."
    )
    kind: str = field(
        4,
        always=True,
        doc=(
            "Kind of the objects in CamelCase, usually singular. Cannot be updated once the "
            "definition is established."
        ),
        required=True,
    )
    listKind: str = field(
        5,
        doc=(
            "Kind of lists of the objects; must differ from kind. Defaults to kind followed by "
            "List."
        ),
    )
    categories: list[str] = field(
        6,
        doc=(
            "Groups of resources to join, such as all; kubectl get <category> then includes this "
            "resource."
        ),
    )


class CustomResourceDefinitionSpec(Type):
    """The desired names, scope, versions and conversion of a custom resource."""

    group: str = field(
        1,
        always=True,
        doc=(
            "API group of the resource, a domain name with at least one dot. Served under "
            "/apis/<group>; cannot be updated."
        ),
        required=True,
    )
    names: CustomResourceDefinitionNames = field(
        3, doc="Plural, singular and short names and the kinds of the resource.", required=True
    )
    scope: str = field(
        4,
        always=True,
        doc=(
            "Namespaced for objects in namespaces, Cluster for objects without one. Cannot be "
            "updated once the definition is established."
        ),
        required=True,
    )
    versions: list[CustomResourceDefinitionVersion] = field(
        7,
        always=True,
        doc=(
            "All versions of the resource. Exactly one must have storage set. Their order in "
            "discovery follows from their names: v2, v1, v1beta1."
        ),
        required=True,
    )
    conversion: CustomResourceConversion | None = field(
        9, doc="How objects are converted between versions. Defaults to strategy None."
    )
    preserveUnknownFields: bool = field(
        10,
        doc=(
            "Deprecated: must be false in new definitions. Set "
            "x-kubernetes-preserve-unknown-fields in the schema to keep undeclared fields."
        ),
    )


class CustomResourceDefinitionStatus(Type):
    """The observed state of a CustomResourceDefinition, written by the server."""

    conditions: list[CustomResourceDefinitionCondition] = field(
        1,
        always=True,
        keys=("type",),
        doc=(
            "Aspects of the definition's state, at most one per type. Established is True once "
            "the resource is served."
        ),
    )
    acceptedNames: CustomResourceDefinitionNames = field(
        2,
        doc=(
            "Names that the server serves. They may differ from spec.names if another resource "
            "uses some of those."
        ),
    )
    storedVersions: list[str] = field(
        3,
        always=True,
        doc=(
            "Versions that objects have ever been stored in. Remove a version here, after a "
            "storage migration, before removing it from spec.versions."
        ),
    )
    observedGeneration: int64 = field(
        4, doc="metadata.generation of the definition that this status was computed for."
    )


class CustomResourceDefinitionVersion(Type):
    """One version of a custom resource."""

    name: str = field(
        1,
        always=True,
        doc="Name of the version in URLs, such as v1 or v1beta1. Unique in the definition.",
        required=True,
    )
    served: bool = field(
        2,
        always=True,
        doc="Whether clients can read and write objects in this version.",
        required=True,
    )
    storage: bool = field(
        3,
        always=True,
        doc="Whether objects are stored in this version. Must be true for exactly one version.",
        required=True,
    )
    deprecated: bool = field(
        7, doc="Whether requests to this version are answered with a warning. Defaults to false."
    )
    deprecationWarning: str | None = field(
        8,
        doc=(
            "Text of the warning, at most 256 printable characters; needs deprecated true. By "
            "default it names the kind and a newer version."
        ),
    )
    schema: CustomResourceValidation | None = field(
        4,
        doc=(
            "OpenAPI v3 schema that objects of this version are validated, pruned and defaulted "
            "by. Required."
        ),
    )
    subresources: CustomResourceSubresources | None = field(
        5, doc="Which subresources the version has: status, scale, both or none (the default)."
    )
    additionalPrinterColumns: list[CustomResourceColumnDefinition] = field(
        6, doc="Columns that kubectl prints after the name. By default the only one is Age."
    )
    selectableFields: list[SelectableField] = field(
        9,
        doc=(
            "Fields that field selectors can use, at most 8. By default only metadata.name and "
            "metadata.namespace."
        ),
    )


class CustomResourceSubresourceScale(Type):
    """Enables the scale subresource, which kubectl scale and autoscalers use, and maps it to fields
    of the object."""

    specReplicasPath: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "JSON path below .spec of the desired number of replicas, such as .spec.replicas. No "
            "array notation. A missing value is an error on GET."
        ),
    )
    statusReplicasPath: str = field(
        2,
        always=True,
        required=True,
        doc=(
            "JSON path below .status of the observed number of replicas, such as "
            ".status.replicas. No array notation. A missing value reads as 0."
        ),
    )
    labelSelectorPath: str | None = field(
        3,
        doc=(
            "JSON path below .spec or .status of the label selector, as text, that finds the "
            "replicas' pods. Needed for HorizontalPodAutoscalers."
        ),
    )


class CustomResourceSubresourceStatus(Type):
    """Enables the status subresource. It has no settings: write {}."""


class CustomResourceSubresources(Type):
    """The subresources of a custom resource."""

    status: CustomResourceSubresourceStatus | None = field(
        1,
        doc=(
            "Enables /status, which alone can change status; writes to the main resource leave "
            "status as it is."
        ),
    )
    scale: CustomResourceSubresourceScale | None = field(
        2,
        doc=(
            "Enables /scale, which reads and writes the number of replicas as an autoscaling/v1 "
            "Scale."
        ),
    )


class CustomResourceValidation(Type):
    """The schema that custom resources are validated by."""

    openAPIV3Schema: JSONSchemaProps | None = field(
        1,
        doc=(
            "OpenAPI v3 schema of the objects. It must be structural: each field has a type and "
            "is declared outside of allOf, anyOf, oneOf and not."
        ),
    )


class ExternalDocumentation(Type):
    """A reference to further documentation."""

    description: str = field(1, doc="What the documentation covers, for people.")
    url: str = field(2, doc="URL of the documentation.")


class JSON(FreeJSON):
    """Any JSON value: null, a boolean, a number, a string, a list or an object."""


class JSONSchemaProps(Type):
    """A JSON schema as in OpenAPI v3. Schemas of custom resources must be structural and support a
    subset of its keywords."""

    id: str = field(
        1, doc="URI of the schema itself. Not supported for custom resources: must be empty."
    )
    schema: str = field(
        2,
        json="$schema",
        proto="schema",
        doc="URI of the dialect of JSON schema. Ignored by validation.",
    )
    ref: str | None = field(
        3,
        json="$ref",
        proto="ref",
        doc="Reference to another schema. Not supported for custom resources: must be unset.",
    )
    description: str = field(4, doc="What the value means, for people; kubectl explain shows it.")
    type: str = field(
        5,
        doc=(
            "JSON type of the value: array, boolean, integer, number, object or string. May be "
            "omitted only with x-kubernetes-int-or-string or x-kubernetes-preserve-unknown-fields."
        ),
    )
    format: str = field(
        6,
        doc=(
            "Format of a string or number, such as date-time, uuid, ipv4, email or int32. Unknown "
            "formats are ignored."
        ),
    )
    title: str = field(7, doc="Short title of the value, for people.")
    default: JSON | None = field(
        8,
        doc=(
            "Value put in place of a missing one, on reading and on writing. Must satisfy the "
            "schema; not allowed in metadata, kind and apiVersion."
        ),
    )
    maximum: double | None = field(9, doc="The largest number allowed.")
    exclusiveMaximum: bool = field(
        10, doc="True makes maximum itself invalid: the value must be less. Defaults to false."
    )
    minimum: double | None = field(11, doc="The smallest number allowed.")
    exclusiveMinimum: bool = field(
        12, doc="True makes minimum itself invalid: the value must be greater. Defaults to false."
    )
    maxLength: int64 | None = field(13, doc="The largest number of characters in a string.")
    minLength: int64 | None = field(14, doc="The smallest number of characters in a string.")
    pattern: str = field(
        15,
        doc=(
            "Regular expression that a string must match somewhere; anchor it with ^ and $ to "
            "match all of it."
        ),
    )
    maxItems: int64 | None = field(16, doc="The largest number of items in a list.")
    minItems: int64 | None = field(17, doc="The smallest number of items in a list.")
    uniqueItems: bool = field(
        18,
        doc=(
            "Must be false, because checking takes quadratic time. Use x-kubernetes-list-type set "
            "instead."
        ),
    )
    multipleOf: double | None = field(19, doc="The number must be a multiple of this positive one.")
    enum: list[JSON] = field(20, doc="The allowed values; the value must equal one of them.")
    maxProperties: int64 | None = field(21, doc="The largest number of entries in an object.")
    minProperties: int64 | None = field(22, doc="The smallest number of entries in an object.")
    required: list[str] = field(23, doc="Names of the properties that an object must have.")
    items: JSONSchemaPropsOrArray | None = field(
        24,
        doc=(
            "Schema of every item of a list. Required for type array; must be one schema, not a "
            "list of them."
        ),
    )
    allOf: list[JSONSchemaProps] = field(
        25,
        doc="Schemas that must all be valid. They can only restrict the value, not declare fields.",
    )
    oneOf: list[JSONSchemaProps] = field(
        26,
        doc=(
            "Schemas of which exactly one must be valid. They can only restrict the value, not "
            "declare fields."
        ),
    )
    anyOf: list[JSONSchemaProps] = field(
        27,
        doc=(
            "Schemas of which at least one must be valid. They can only restrict the value, not "
            "declare fields."
        ),
    )
    not_: JSONSchemaProps | None = field(
        28, doc="Schema that must not be valid. It can only restrict the value, not declare fields."
    )
    properties: dict[str, JSONSchemaProps] = field(
        29,
        doc=(
            "Schemas of the object's properties by name. Undeclared properties are pruned unless "
            "x-kubernetes-preserve-unknown-fields is true."
        ),
    )
    additionalProperties: JSONSchemaPropsOrBool | None = field(
        30,
        doc=(
            "Schema of the values of a map with arbitrary keys. Excludes properties; not allowed "
            "at the root."
        ),
    )
    patternProperties: dict[str, JSONSchemaProps] = field(
        31,
        doc=(
            "Schemas of properties by a pattern of their names. Not supported for custom "
            "resources: must be empty."
        ),
    )
    dependencies: dict[str, JSONSchemaPropsOrStringArray] = field(
        32,
        doc=(
            "What each property requires beside it. Not supported for custom resources: must be "
            "empty."
        ),
    )
    additionalItems: JSONSchemaPropsOrBool | None = field(
        33,
        doc="Schema of further items of a list. Not supported for custom resources: must be unset.",
    )
    definitions: dict[str, JSONSchemaProps] = field(
        34, doc="Schemas for $ref to refer to. Not supported for custom resources: must be empty."
    )
    externalDocs: ExternalDocumentation | None = field(
        35, doc="Reference to further documentation of the value."
    )
    example: JSON | None = field(
        36, doc="An example value, for documentation only; it is not validated."
    )
    nullable: bool = field(
        37,
        doc=(
            "True allows null beside the values of type. If false, a null property is dropped, or "
            "replaced by its default. Must be false at the root."
        ),
    )
    xKubernetesPreserveUnknownFields: bool | None = field(
        38,
        json="x-kubernetes-preserve-unknown-fields",
        proto="xKubernetesPreserveUnknownFields",
        doc=(
            "True keeps properties that the schema does not declare, instead of pruning them; "
            "nested declared properties are pruned again. Must be true or unset."
        ),
    )
    xKubernetesEmbeddedResource: bool = field(
        39,
        json="x-kubernetes-embedded-resource",
        proto="xKubernetesEmbeddedResource",
        doc=(
            "True marks an object with apiVersion, kind and metadata of its own, which are then "
            "validated. Needs type object."
        ),
    )
    xKubernetesIntOrString: bool = field(
        40,
        json="x-kubernetes-int-or-string",
        proto="xKubernetesIntOrString",
        doc="True allows an integer or a string; type must be unset. Defaults to false.",
    )
    xKubernetesListMapKeys: list[str] = field(
        41,
        json="x-kubernetes-list-map-keys",
        proto="xKubernetesListMapKeys",
        doc=(
            "Properties that together identify an item; each must be required or have a default. "
            "For x-kubernetes-list-type map only, which needs them."
        ),
    )
    xKubernetesListType: str | None = field(
        42,
        json="x-kubernetes-list-type",
        proto="xKubernetesListType",
        doc=(
            "How a list merges: atomic replaces it as a whole (the default), set has unique "
            "items, map has items identified by x-kubernetes-list-map-keys."
        ),
    )
    xKubernetesMapType: str | None = field(
        43,
        json="x-kubernetes-map-type",
        proto="xKubernetesMapType",
        doc="How an object merges: granular per entry (the default), atomic as a whole.",
    )
    xKubernetesValidations: list[ValidationRule] = field(
        44,
        json="x-kubernetes-validations",
        proto="xKubernetesValidations",
        keys=("rule",),
        merge="rule",
        doc=(
            "Validation rules in CEL for the value at this place of the schema; all of them must "
            "hold."
        ),
    )


class JSONSchemaPropsOrArray(SchemaOrSchemas):
    """One schema for all items, or a list of schemas by position. Custom resources support one
    schema only."""

    schema: JSONSchemaProps | None = field(1, doc="The schema of every item.")
    jSONSchemas: list[JSONSchemaProps] = field(
        2, doc="Schemas of the items by position; not supported for custom resources."
    )


class JSONSchemaPropsOrBool(SchemaOrBool):
    """A schema, or a boolean: true allows any value, false none."""

    allows: bool = field(1, doc="Whether values are allowed at all; true if schema is set.")
    schema: JSONSchemaProps | None = field(
        2, doc="Schema of the allowed values; unset if any value is allowed."
    )


class JSONSchemaPropsOrStringArray(SchemaOrNames):
    """A schema, or a list of property names."""

    schema: JSONSchemaProps | None = field(
        1, doc="Schema that the object must satisfy if it has the property."
    )
    property: list[str] = field(
        2, doc="Names of properties that the object must have if it has this one."
    )


class SelectableField(Type):
    """A field of a custom resource that field selectors can use."""

    jsonPath: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "JSON path of the field, such as .spec.color. It must have type string, boolean or "
            "integer, be outside of metadata, and use no array notation."
        ),
    )


class ServiceReference(Type):
    """The Service in front of a webhook."""

    namespace: str = field(1, always=True, required=True, doc="Namespace of the Service. Required.")
    name: str = field(2, always=True, required=True, doc="Name of the Service. Required.")
    path: str | None = field(
        3, doc="URL path to send requests to, starting with a slash; empty means the root."
    )
    port: int32 | None = field(
        4,
        doc="Port of the Service that the webhook is served on, from 1 to 65535. Defaults to 443.",
    )


class ValidationRule(Type):
    """A CEL expression that a value of a custom resource must satisfy."""

    rule: str = field(
        1,
        always=True,
        doc=(
            "CEL expression that must be true. self is the value; oldSelf, if used, is the value "
            "before an update, and the rule then applies to updates only."
        ),
        required=True,
    )
    message: str = field(
        2,
        doc=(
            "Text of the error if the rule is false; required if rule has line breaks. Defaults "
            'to "failed rule: <rule>".'
        ),
    )
    messageExpression: str = field(
        3,
        doc=(
            "CEL expression of type string for the error text; it takes precedence over message. "
            "If it fails, message is used."
        ),
    )
    reason: str | None = field(
        4,
        enum=(
            "FieldValueRequired",
            "FieldValueDuplicate",
            "FieldValueInvalid",
            "FieldValueForbidden",
        ),
        doc=(
            "Reason of the error that clients receive: FieldValueInvalid (the default), "
            "FieldValueForbidden, FieldValueRequired or FieldValueDuplicate."
        ),
    )
    fieldPath: str = field(
        5,
        doc=(
            "JSON path, relative to this place of the schema, of the field that the error names. "
            "Defaults to the value itself."
        ),
    )
    optionalOldSelf: bool | None = field(
        6,
        doc=(
            "True applies a rule that uses oldSelf to creates and to new values too; oldSelf is "
            "then an optional value. Defaults to false."
        ),
    )


class WebhookClientConfig(Type):
    """How to reach a webhook: by url or by service, exactly one of them."""

    url: str | None = field(
        3, doc="HTTPS URL of the webhook, without user, query and fragment. Excludes service."
    )
    service: ServiceReference | None = field(
        1,
        doc=(
            "The Service in front of the webhook; use it if the webhook runs in the cluster. "
            "Excludes url."
        ),
    )
    caBundle: bytes = field(
        2,
        doc=(
            "PEM-encoded CA certificates to verify the webhook's certificate with. Defaults to "
            "the trust roots of the API server's system."
        ),
    )


class WebhookConversion(Type):
    """How to call a conversion webhook."""

    clientConfig: WebhookClientConfig | None = field(
        2, doc="Address and trust roots of the webhook. Required for strategy Webhook."
    )
    conversionReviewVersions: list[str] = field(
        3,
        always=True,
        required=True,
        doc=(
            "ConversionReview versions that the webhook accepts, best first; must include v1 or "
            "v1beta1, or conversions fail."
        ),
    )
