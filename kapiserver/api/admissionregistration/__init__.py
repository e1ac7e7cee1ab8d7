"""admissionregistration.k8s.io: configurations of admission webhooks and policies."""
