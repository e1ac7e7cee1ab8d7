"""Delegated admission: namespaces, webhooks and policies of the host rule the writes here."""
