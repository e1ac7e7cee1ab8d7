"""Resource requests: negotiation, request bodies, handlers of verbs, subresources."""
