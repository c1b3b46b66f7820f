-- Put back what a `remove` took for callers who have gone, or keep it from being done later. Safe to repeat.
--   args: guard of the request to be undone, how many of its tuples (the last ones; '' for the whole request)
--   result: how many were put back
local blob = args[1]
if not call('ZSCORE', sessions, sub(blob, 1, 8)) then return 0 end
local slot, mine = sub(blob, 1, 10), sub(blob, 11, 16)
local last = call('HGET', replies, slot)
if last and value(last) > value(mine) then return 0 end
call('HSET', replies, slot, mine .. cmsgpack.pack({'none'}))
if not last or sub(last, 1, 6) ~= mine then return 0 end
local kept = cmsgpack.unpack(sub(last, 7))
if kept[1] ~= 'got' then return 0 end
local first = args[2] == '' and 2 or math.max(2, #kept - tonumber(args[2]) + 1)
for i = first, #kept do
  local payload, seq, head, count = kept[i][1], kept[i][2], kept[i][3], kept[i][4]
  local record = head .. payload
  if not expired(record) then
    call('HSET', tuples, seq, record)
    if count > 0 then call('HSET', tries, seq, count) end
    if byte(record, 1) == 1 then call('ZADD', due, value(record, 2), 'T' .. seq) end
    if not offer(seq, record) then stand(seq, record) end
  end
end
return #kept - first + 1
