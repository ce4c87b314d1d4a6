"""The service's door: routes, limits, tokens, numbers to watch."""
