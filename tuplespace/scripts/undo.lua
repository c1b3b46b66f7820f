-- Put back what a `remove` took for a caller who has gone, or keep it from being done later. Safe to repeat.
--   args: guard of the request to be undone
--   result: 1 when a tuple was put back, else 0
local blob = args[1]
if not call('ZSCORE', sessions, sub(blob, 1, 8)) then return 0 end
local slot, mine = sub(blob, 1, 10), sub(blob, 11, 16)
local last = call('HGET', replies, slot)
if last and value(last) > value(mine) then return 0 end
call('HSET', replies, slot, mine .. cmsgpack.pack({'none'}))
if not last or sub(last, 1, 6) ~= mine then return 0 end
local kept = cmsgpack.unpack(sub(last, 7))
if kept[1] ~= 'got' then return 0 end
local payload, seq, head, count = kept[2], kept[3], kept[4], kept[5]
local record = head .. payload
if expired(record) then return 0 end
call('HSET', tuples, seq, record)
if count > 0 then call('HSET', tries, seq, count) end
if byte(record, 1) == 1 then call('ZADD', due, value(record, 2), 'T' .. seq) end
if not offer(seq, record) then stand(seq, record) end
return 1
