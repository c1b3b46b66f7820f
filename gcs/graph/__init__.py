"""The web graph of a crawl (004, sections 3.1.2 and 5.1).

`tables` says what nodes and edges are, as expressions over the tables of a crawl; `engine` runs expressions.
"""
