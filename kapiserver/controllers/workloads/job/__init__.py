"""The Job controller: `plan` and what it uses are its pure core, `controller` is its shell."""
