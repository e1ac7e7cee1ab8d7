"""The rules for CustomResourceDefinitions."""
