"""The controller of HorizontalPodAutoscalers, and the pure functions that decide for it."""
