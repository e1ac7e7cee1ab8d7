"""admission.k8s.io: the reviews that admission webhooks receive and return."""
