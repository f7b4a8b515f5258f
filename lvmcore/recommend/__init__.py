"""Which model suits a table, and why."""
