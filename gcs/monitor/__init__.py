"""The web page of a crawl, and the HTTP API that it and `gcs --monitor` use.

daemon      `gcs monitor`: a service that watches the crawl of the configuration
monitor     what watches and what answers, put together
serving     HTTP on trio: the sockets, Hypercorn, its limits
gate        who may ask what: hosts, sessions, roles, where a change comes from; headers of every answer
keys        the tokens to sign in with, and how often one may try
sessions    who has signed in, until when, and who has signed out
routes      what can be asked; control what can be changed
openapi     the same for programs, described from the types of requests and of shapes
shapes      what answers and events look like, as types
watch       looks at the crawl once a second for all who watch it
stream      server-sent events: encoded once, sent to all
history     how it went, in bounded series, kept over a restart
chronicle   what has happened, in sentences
client      `gcs --monitor`: the same questions, asked over HTTP

`static/` has the page itself. Nothing here writes to the crawl but by the questions of `gcs.operate`.
"""
