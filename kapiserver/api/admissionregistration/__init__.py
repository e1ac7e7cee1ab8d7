"""admissionregistration.k8s.io: webhooks and policies that change or refuse writes."""
