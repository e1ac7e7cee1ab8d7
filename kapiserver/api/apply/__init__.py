"""Server-side apply: sets of fields, who manages them, and the merge of objects."""
