-- Take the oldest matching tuple for good: a take and its commit in one step.
--   args: guard, bucket, pattern, tag, positions
--   result: {'got', payload} | {'none'} | {'again'}
-- The kept reply has all of the tuple, so that `undo` can put it back if the caller has gone.
local kept = guard(args[1])
if kept then return kept end
local problem = mismatch(args[4], args[5])
if problem then return problem end
sweep()
if not indexed(args[2], args[4]) then return answer(args[1], {'again'}) end
local found = find(args[2], args[3], 1, '')
if not found then return redis.error_reply('TSSHAPES ' .. SHAPES) end
if #found == 0 then return answer(args[1], {'none'}) end
local seq = sub(found[1], -6)
local record = call('HGET', tuples, seq)
local tag, signature, tokens, at = split(record)
call('ZREM', index, unpack(members(seq, tag, signature, tokens)))
local over, count, payload = expired(record), tonumber(call('HGET', tries, seq) or 0), sub(record, at)
forget(seq, record)
if over then return answer(args[1], {'again'}) end
tell('i', {payload})
answer(args[1], {'got', payload, seq, sub(record, 1, at - 1), count})
return {'got', payload}
