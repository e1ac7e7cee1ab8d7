"""StatefulSets: pods with names, an order and volumes of their own."""
