"""What the monitor tells, as types; the description for programs (`gcs.monitor.openapi`) is made from them.

crawl    how it is, who is there, and what has happened
plan     who owns what, who is fast for what, and what plans have moved
web      what was found: languages, countries, hosts, pages
live     events, as things change

Times are Unix seconds, None is what is not known. What commands say is in `gcs.operate.facts`.
"""
