"""Clients of the service, waiting or awaited."""
