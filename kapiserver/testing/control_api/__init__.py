"""The control API: a test server for tests in any language."""
