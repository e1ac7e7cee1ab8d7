"""Endpoints of services, the service `kubernetes`, and service address ranges."""
