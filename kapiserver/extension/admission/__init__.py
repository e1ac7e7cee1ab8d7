"""Delegated admission: the policies, webhooks and namespaces of the host, for the resources here."""
