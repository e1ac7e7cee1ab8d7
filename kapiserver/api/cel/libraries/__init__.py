"""The libraries of CEL: tables of functions, one module for each library."""
