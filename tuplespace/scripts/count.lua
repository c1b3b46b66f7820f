-- Count the waiting tuples that match.
--   args: bucket, pattern, tag, positions
--   result: the number, and 1 when it is not final (expired tuples remain to be swept) and to be asked again
local problem = mismatch(args[3], args[4])
if problem then return problem end
local more = sweep()
if not indexed(args[1], args[3]) then return {0, 1} end
local bucket, pattern, total = args[1], args[2], 0
local function one(shape)
  local prefix = bucket .. shape
  total = total + call('ZLEXCOUNT', index, '[' .. prefix, '(' .. prefix .. '\255')
end
if not string.find(pattern, '?', 2, true) then
  one(pattern)
else
  local whole = shapes(index, bucket, function(shape)
    if fits(pattern, shape) then one(shape) end
  end)
  if not whole then return redis.error_reply('TSSHAPES ' .. SHAPES) end
end
return {total, more and 1 or 0}
