"""apiextensions.k8s.io: CustomResourceDefinitions and the reviews of conversion webhooks."""
