"""Gates compared on scenarios, and a log of one's own replayed through one."""
