"""Durable streams and rounds, in SQLite or PostgreSQL."""
