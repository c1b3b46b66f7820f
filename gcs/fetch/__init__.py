"""Asking the web: transport, names, the address guard, robots."""
