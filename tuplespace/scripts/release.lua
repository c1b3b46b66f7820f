-- Stop waiting, or give a lease back before its time. Safe to repeat.
--   args: counted ('1' when the tuples were seen and count as delivered, else ''), then leases or waiters (14)
--   result: 0, or 1 when a lease is so large that the rest is left to the next sweep
local budget, more = SWEEP, 0
for i = 2, #args do
  local name = args[i]
  local place = call('HGET', waiting, name)
  if place then
    leave_line(name, sub(place, 1, 1), sub(place, 2))
  else
    budget = budget - end_lease(name, args[1] == '1', math.max(budget, 1))
    if call('HEXISTS', held, name) == 1 then more = 1 end
  end
end
return more
