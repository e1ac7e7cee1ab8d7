"""What a server writes to /metrics: `exposition` chooses the form, and each module has families."""
