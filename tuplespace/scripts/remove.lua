-- Take the oldest matching tuples for good: a take and its commit in one step.
--   args: guard, how many at most, bucket, pattern, tag, positions, longest payload that the caller reads
--   result: {'got', dropped, payload, ...} | {'none', dropped} | {'again', dropped}
-- where dropped is how many were longer than that, and are gone.
-- The kept reply has all of the tuples, so that `undo` can put them back if their callers have gone.
local kept = guard(args[1])
if kept then
  if kept[1] ~= 'got' then return kept end
  local reply = {'got', 0}
  for i = 2, #kept do insert(reply, kept[i][1]) end
  return reply
end
local problem = mismatch(args[5], args[6])
if problem then return problem end
sweep()
if not indexed(args[3], args[5]) then return answer(args[1], {'again', 0}) end
local all_found = find(args[3], args[4], tonumber(args[2]), '')
if not all_found then return redis.error_reply('TSSHAPES ' .. SHAPES) end
if #all_found == 0 then return answer(args[1], {'none', 0}) end
local found, dropped = bearable(all_found, tonumber(args[7]))
if #found == 0 then return answer(args[1], {'again', dropped}) end
local names, gone, all, payloads, size = {}, {}, {'got'}, {}, 0
for i, member in ipairs(found) do names[i] = sub(member, -6) end
local records, counts = call('HMGET', tuples, unpack(names)), call('HLEN', tries) > 0
for i, seq in ipairs(names) do
  local record = records[i]
  size = size + #record
  if size > REPLY_BYTES and i > 1 then
    for j = #names, i, -1 do names[j] = nil end
    break
  end
  local tag, signature, tokens, at = split(record)
  for _, one in ipairs(members(seq, tag, signature, tokens)) do insert(gone, one) end
  if byte(record, 1) == 1 then call('ZREM', due, 'T' .. seq) end
  if not expired(record) then
    local payload = sub(record, at)
    insert(payloads, payload)
    local count = counts and tonumber(call('HGET', tries, seq) or 0) or 0
    insert(all, {payload, seq, sub(record, 1, at - 1), count})
  end
end
variadic('ZREM', index, gone)
call('HDEL', tuples, unpack(names))
if counts then call('HDEL', tries, unpack(names)) end
if #payloads == 0 then return answer(args[1], {'again', dropped}) end
tell('i', payloads)
answer(args[1], all)
insert(payloads, 1, dropped)
insert(payloads, 1, 'got')
return payloads
