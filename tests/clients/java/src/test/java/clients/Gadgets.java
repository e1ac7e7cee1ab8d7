package clients;

/** The custom resource definition of gadgets, in YAML, which both clients read. */
final class Gadgets {
  static final String VERSION = "v1";
  static final String PLURAL = "gadgets";

  private Gadgets() {}

  static String definition(String group) {
    return """
        apiVersion: apiextensions.k8s.io/v1
        kind: CustomResourceDefinition
        metadata: {name: gadgets.%1$s}
        spec:
          group: %1$s
          scope: Namespaced
          names: {plural: gadgets, singular: gadget, kind: Gadget, listKind: GadgetList}
          versions:
          - name: v1
            served: true
            storage: true
            schema:
              openAPIV3Schema:
                type: object
                properties:
                  spec:
                    type: object
                    required: [size]
                    properties:
                      size: {type: integer, minimum: 0, maximum: 9}
                      color: {type: string, default: blue}
                  status:
                    type: object
                    properties:
                      size: {type: integer}
            subresources:
              status: {}
              scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size}
        """
        .formatted(group);
  }
}
