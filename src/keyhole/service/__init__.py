"""The service: HTTP in front of the store, and the page."""
