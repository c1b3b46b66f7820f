-- Give leases their full time again. Safe to repeat.
--   args: leases(14)
--   result: the tenure of the server, then those that have ended
local lost = {}
for i = 1, #args do
  local entry, until_ms = call('HGET', held, args[i]), call('ZSCORE', due, 'L' .. args[i])
  if entry and tonumber(until_ms or 0) > now then
    call('ZADD', due, now + value(entry), 'L' .. args[i])
  else
    insert(lost, args[i])
  end
end
put_tenure_before(lost)
return lost
