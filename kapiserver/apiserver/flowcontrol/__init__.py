"""Priority and fairness: which flow schema and priority level a request belongs to."""
