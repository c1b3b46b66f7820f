"""The leader of a round: collects what all gatherers have seen, decides who owns what, and publishes it."""
