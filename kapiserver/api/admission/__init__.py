"""admission.k8s.io: what a webhook is asked about a write, and what it answers."""
