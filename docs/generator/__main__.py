"""Refreshes the generated tables of the pages, and the man page: `make tables`."""

from docs.generator.manual import MAN_PAGE, manual
from docs.generator.tables import pages_with_tables, refresh

MAN_PAGE.write_text(manual(), encoding="utf-8")

for page in pages_with_tables():
    refresh(page)
