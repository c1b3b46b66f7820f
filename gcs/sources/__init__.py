"""What is crawled beside the web: files, news, FTP and SSH servers, buckets, databases (docs/sources.md).

A source answers a URL as a web server would, with a status, a type, a body, validators. What has parts, such
as a directory, is a page whose links are its parts, long ones in pieces. So the frontier, superpages, the
exchange between gatherers, summaries, revisits and `gcs why` need not know that there are sources.
"""
