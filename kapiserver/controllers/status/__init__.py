"""Conditions that the server writes: definitions, policies, API services, flow schemas."""
