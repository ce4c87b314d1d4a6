"""The tables, the statements, and one way to run them on SQLite and on PostgreSQL."""
