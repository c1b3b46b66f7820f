"""The gatherer: the daemon that crawls the part of the web it owns."""
