-- Take the oldest matching tuples under a lease, or join the line of those who wait for one.
--   args: guard, lease(14), terms(9), bucket, pattern, many, wait ('1' or ''), turn (or ''), tag, positions
--   result: {'got', tries, payload, ...} | {'wait', turn} | {'none'} | {'again'}
-- The kept reply of a repeated request is only that it was done; what it got is read from the lease.
local lease = args[2]
local kept = guard(args[1])
if kept then
  if kept.err then return kept end
  local still = holding(lease)
  if still then
    insert(still, 1, 'got')
    return still
  end
  local place = call('HGET', waiting, lease)
  if place then return {'wait', sub(place, -6)} end
  return {'again'}
end
local problem = mismatch(args[9], args[10])
if problem then return problem end
sweep()
if not indexed(args[4], args[9]) then
  answer(args[1], {})
  return {'again'}
end
local got, again = take(lease, args[3], args[4], args[5], tonumber(args[6]))
if got and got.err then return got end
answer(args[1], {})
if got then
  insert(got, 1, 'got')
  return got
end
if again then return {'again'} end
if args[7] == '' then return {'none'} end
return {'wait', join_line('t', lease, args[3], args[4], args[5], args[8])}
