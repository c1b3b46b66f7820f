"""The light-weight worker on somebody's desktop, and with what the owner decides when it works."""
