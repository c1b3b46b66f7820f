-- A waiting client's sign of life: renews its session and its places in line, gives back what is due,
-- and repeats hand-overs whose message was lost. Safe to repeat.
--   args: session(8), '1' when the client watches (else ''), longest payload that it reads, waiters(14)
--   result: for each waiter {'wait'} | {'got', tries, payload} | {'gone'}: not known, ask anew
call('ZADD', sessions, 'XX', now, args[1])  -- a forgotten session must stay unknown
if args[2] == '1' then call('HSET', meta, 'watch', now + 5000) end
sweep()
forget_sessions()
local reply = {}
for i = 4, #args do
  local place = call('HGET', waiting, args[i])
  local still = not place and holding(args[i], tonumber(args[3]))
  if place then
    call('ZADD', due, 'XX', now + WAITER_MS, 'W' .. args[i])
    insert(reply, overlooked(args[i], place) and {'gone'} or {'wait'})
  elseif still then
    insert(still, 1, 'got')
    insert(reply, still)
  else
    insert(reply, {'gone'})
  end
end
return reply
