-- Read matching tuples without taking them, oldest first, or join the line of those who wait to read.
--   args: bucket, pattern, limit, after (a number, or ''), tag, positions, waiter (14, or ''), terms(9), turn (or ''),
--         longest payload that the caller reads
--   result: {'got', number, payload, ...} | {'wait', turn} | {'none'} | {'again', number to go on from}
-- A tuple whose time is over, or that is longer, is passed over, so a page may be shorter than its limit.
local problem = mismatch(args[5], args[6])
if problem then return problem end
sweep()
if not indexed(args[1], args[5]) then return {'again', args[4]} end
local limit, longest = tonumber(args[3]), tonumber(args[10])
local found = find(args[1], args[2], limit, args[4])
if not found then return redis.error_reply('TSSHAPES ' .. SHAPES) end
local reply = {'got'}
for _, member in ipairs(found) do
  local seq = sub(member, -6)
  local record = not too_long(seq, longest) and call('HGET', tuples, seq)
  if record and not expired(record) then
    local _, _, _, at = split(record)
    insert(reply, seq)
    insert(reply, sub(record, at))
  end
end
if #reply > 1 then return reply end
if #found > 0 then return {'again', sub(found[#found], -6)} end
if args[7] == '' then return {'none'} end
return {'wait', join_line('r', args[7], args[8], args[1], args[2], args[9])}
