"""lifecycle.k8s.io: evictions that are asked for and answered step by step."""
