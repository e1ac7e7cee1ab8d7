"""Refreshes the generated tables of the pages: `make tables`."""

from docs.generator.tables import pages_with_tables, refresh

for page in pages_with_tables():
    refresh(page)
