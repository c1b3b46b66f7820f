-- A waiting client's sign of life: renews its session and its places in line, gives back what is due,
-- and repeats hand-overs whose message was lost. Safe to repeat.
--   args: session(8), '1' when the client watches (else ''), waiters(14)
--   result: for each waiter {'wait'} | {'got', tries, payload} | {'gone'}: not known, ask anew
call('ZADD', sessions, 'XX', now, args[1])  -- a forgotten session must stay unknown
if args[2] == '1' then call('HSET', meta, 'watch', now + 5000) end
sweep()
for _, session in ipairs(call('ZRANGEBYSCORE', sessions, '-inf', now - SESSION_MS, 'LIMIT', 0, 2)) do
  local slots = {}
  for i = 0, 511 do insert(slots, session .. pack('>I2', i)) end
  call('ZREM', sessions, session)
  call('HDEL', replies, unpack(slots))
end
local reply = {}
for i = 3, #args do
  local place = call('HGET', waiting, args[i])
  if place then
    call('ZADD', due, 'XX', now + WAITER_MS, 'W' .. args[i])
    insert(reply, {'wait'})
  else
    local still = holding(args[i])
    if still then
      insert(still, 1, 'got')
      insert(reply, still)
    else
      insert(reply, {'gone'})
    end
  end
end
return reply
