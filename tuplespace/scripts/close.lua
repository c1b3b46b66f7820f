-- End a session and forget its kept replies. Safe to repeat.
--   args: session(8), how many slots it used
--   result: 1
call('ZREM', sessions, args[1])
local slots = {}
for i = 0, tonumber(args[2]) - 1 do insert(slots, args[1] .. pack('>I2', i)) end
if #slots > 0 then call('HDEL', replies, unpack(slots)) end
return 1
