-- Take the oldest matching tuples under a lease, or join the line of those who wait for one.
--   args: guard, lease(14), terms(9), bucket, pattern, many, wait ('1' or ''), turn (or ''), tag, positions,
--         longest payload that the caller reads
--   result: {'got', dropped, tenure, tries, payload, ...} | {'wait', dropped, turn} | {'none', dropped} | {'again', dropped}
-- where dropped is how many were longer than that, and are gone, and tenure two numbers: how long the server is there, and since when.
-- The kept reply of a repeated request is only that it was done; what it got is read from the lease.
local lease, longest = args[2], tonumber(args[11])
local kept = guard(args[1])
if kept then
  if kept.err then return kept end
  local still = holding(lease, longest)
  if still then
    put_tenure_before(still)
    insert(still, 1, 0)
    insert(still, 1, 'got')
    return still
  end
  local place = call('HGET', waiting, lease)
  if place then return {'wait', 0, sub(place, -6)} end
  return {'again', 0}
end
local problem = mismatch(args[9], args[10])
if problem then return problem end
sweep()
if not indexed(args[4], args[9]) then
  answer(args[1], {})
  return {'again', 0}
end
local dropped, got, again = take(lease, args[3], args[4], args[5], tonumber(args[6]), longest)
if got and got.err then return got end
answer(args[1], {})
if got then
  put_tenure_before(got)
  insert(got, 1, dropped)
  insert(got, 1, 'got')
  return got
end
if again then return {'again', dropped} end
if args[7] == '' then return {'none', dropped} end
return {'wait', dropped, join_line('t', lease, args[3], args[4], args[5], args[8])}
