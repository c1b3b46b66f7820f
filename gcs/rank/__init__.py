"""Ranking: priorities over the graph of a crawl (004, section 4.3.3), and how they reach their owners."""
