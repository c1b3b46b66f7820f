"""What one gatherer keeps on its disk: queue and seen-set, pages, summaries, links and the crawl log.

`store.Store` is the way in. `records` are the values that go in and come out; `warc` builds the records of
a page; `segments` turns journalled rows into Parquet files; `mail` says what is in the pieces that stores
send each other.
"""
