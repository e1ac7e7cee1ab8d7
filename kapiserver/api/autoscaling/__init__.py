"""autoscaling: scale and horizontal pod autoscalers."""
