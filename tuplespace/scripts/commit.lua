-- Remove what a lease holds for good and write other tuples, in one step.
--   args: guard, fence, lease(14), then tuples as in out
--   result: 1, or 0 when the lease had ended and nothing was done
local kept = guard(args[1])
if kept then return kept end
local problem = fenced(args[2]) or undeclared(args, 4)
if problem then return problem end
local lease = args[3]
local entry = call('HGET', held, lease)
if not entry or tonumber(call('ZSCORE', due, 'L' .. lease) or 0) <= now then return answer(args[1], 0) end
local numbers, payloads = {}, {}
for i = 10, #entry, 6 do insert(numbers, sub(entry, i, i + 5)) end
if watched() then
  for _, seq in ipairs(numbers) do
    local record = call('HGET', tuples, seq)
    if record then
      local _, _, _, at = split(record)
      insert(payloads, sub(record, at))
    end
  end
end
variadic('HDEL', tuples, numbers)
if call('HLEN', tries) > 0 then variadic('HDEL', tries, numbers) end
call('HDEL', held, lease)
call('ZREM', due, 'L' .. lease)
if sub(entry, 9, 9) == '\1' then
  for i, seq in ipairs(numbers) do numbers[i] = 'T' .. seq end
  variadic('ZREM', due, numbers)
end
tell('i', payloads)
write(args, 4)
return answer(args[1], 1)
