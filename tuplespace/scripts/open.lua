-- Begin a session: from now on its guarded requests are done once each. Safe to repeat.
--   args: session(8)
--   result: the server's time in ms
forget_sessions()
call('ZADD', sessions, now, args[1])
return now
