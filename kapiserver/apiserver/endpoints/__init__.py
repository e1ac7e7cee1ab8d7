"""What answers requests for resources: negotiation, bodies, handlers of verbs, subresources."""
