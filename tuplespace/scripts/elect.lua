-- Win, renew or give up an election. Safe to repeat: a holder's name is used for one term only.
--   args: name, 'win' | 'renew' | 'resign', holder, lease in ms, floor (the highest token the candidate knows)
--   result: {token, 1} held | {ms until the present lease ends, 0} not held
-- A token is one more than the largest of the last token, the candidate's floor and the server's
-- microseconds, so it never goes back, even when the server has lost its last writes.
local field, what, holder = 'e' .. args[1], args[2], args[3]
local entry = call('HGET', meta, field)
local token, until_ms, present = 0, 0, ''
if entry then token, until_ms, present = unpack_number('>I8', entry), value(entry, 9), sub(entry, 15) end
local mine = present == holder and until_ms > now
if what == 'resign' then
  if mine then
    call('HSET', meta, field, sub(entry, 1, 8) .. number(0) .. present)
    call('SPUBLISH', channel .. 'election', args[1])
  end
  return {string.format('%.0f', 0), 0}
end
if not mine then
  if what == 'renew' then return {'0', 0} end
  if until_ms > now then return {string.format('%.0f', until_ms - now), 0} end
  token = math.max(token, tonumber(args[5]), now_us) + 1
  local highest = call('HGET', meta, 'f' .. args[1])
  if highest then token = math.max(token, unpack_number('>I8', highest) + 1) end
  call('HSET', meta, 'f' .. args[1], pack('>I8', token))
end
call('HSET', meta, field, pack('>I8', token) .. number(now + tonumber(args[4])) .. holder)
return {string.format('%.0f', token), 1}
