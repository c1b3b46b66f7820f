-- Replace the oldest matching tuple by another, in one step.
--   args: guard, fence, bucket, pattern, tag, positions, longest payload that the caller reads, then one tuple as in out
--   result: {'got', payload of the tuple replaced} | {'none'}: nothing matched or was written | {'again'}
local kept = guard(args[1])
if kept then return kept end
local problem = fenced(args[2]) or mismatch(args[5], args[6]) or undeclared(args, 8)
if problem then return problem end
sweep()
if not indexed(args[3], args[5]) then return answer(args[1], {'again'}) end
for _ = 1, SWEEP do
  local found = find(args[3], args[4], 1, '')
  if not found then return redis.error_reply('TSSHAPES ' .. SHAPES) end
  if #found == 0 then return answer(args[1], {'none'}) end
  local seq = sub(found[1], -6)
  local record = #bearable(found, tonumber(args[7])) > 0 and call('HGET', tuples, seq)
  if record and expired(record) then
    expire(seq)
  elseif record then
    local tag, signature, tokens, at = split(record)
    call('ZREM', index, unpack(members(seq, tag, signature, tokens)))
    forget(seq, record)
    tell('i', {sub(record, at)})
    write(args, 8)
    return answer(args[1], {'got', sub(record, at)})
  end
end
return answer(args[1], {'again'})
