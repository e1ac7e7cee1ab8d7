"""Tokens of issuers that an AuthenticationConfiguration or the `--oidc-*` flags name."""
