-- Write tuples: each goes to the longest-waiting taker that matches, or stands in the space.
--   args: guard, fence, then for each tuple: ttl in ms (or ''), head, payload
--   result: how many were written
local kept = guard(args[1])
if kept then return kept end
local problem = fenced(args[2]) or undeclared(args, 3)
if problem then return problem end
write(args, 3)
return answer(args[1], (#args - 2) / 3)
