"""CEL rules of the schemas of custom resources (`x-kubernetes-validations`)."""
