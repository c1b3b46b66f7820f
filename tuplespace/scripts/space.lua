-- What every operation shares: the keys of a space, leases, lines of waiters, the index.
--
-- Keys of a space, all under its hash tag, always passed in this order:
--   tuples    hash  number -> record: '\0', or '\1' and the expiry in ms(6), then head and payload.
--                   Waiting and leased tuples alike.
--   index     zset  mask tag tokens signature number, all scores 0: waiting tuples, a member for
--                   each subset (mask) of the declared fields that anybody has asked by, and for
--                   the empty one. Byte order is age within a bucket.
--   due       zset  score in ms: 'L' lease | 'T' tuple number (expiry) | 'W' waiter
--   held      hash  lease -> terms(9) numbers(6 each)
--   tries     hash  number -> deliveries that were not committed (absent: none)
--   takers    zset  mask tag tokens pattern turn: who waits to take, in line within a template
--   readers   zset  the same for those who wait to read
--   waiting   hash  turn -> terms(9) waiter(14), and waiter -> kind member
--   sessions  zset  session, score: last seen in ms
--   replies   hash  session slot -> sequence(6) packed reply: the last answer in each slot
--   meta      hash  'seq', 'turn': counters; 'x' tag: declared fields (a piece), then the masks in
--                   use; 'b' mask tag: how far the index by that mask is built, while it is;
--                   'e' name: election; 'f' name: highest token seen; 'watch': until when somebody watches;
--                   PREFIX'reign': see below; each version of these functions has its own
--
-- A head is: len positions, len tag, len signature, then len token for each declared field; a
-- string with its length byte in front is called a piece below. Numbers and turns are six bytes,
-- big endian, so that byte order is numeric order. Terms are lease ms(6), deliveries allowed(2,
-- 0: no limit), and a byte: 1 when any tuple held expires, 2 more when giving back does not count. A waiter and the lease it
-- becomes have the same 14 bytes: the client's mailbox(8) and a number(6). Lua compares strings by
-- the server's locale, so numbers are compared as numbers; the order of a zset is that of bytes.
--
-- Invariants: a number in `index` is in `tuples` and in no lease; a number in a lease is not in
-- `index`; a waiter in line is in `waiting` under its turn and under its own name, and in `due`.

-- Lua's own libraries are not there yet while this text is loaded: the first call looks them up.
local call, sub, byte, char, pack, unpack_number, insert, concat, floor

local SWEEP = 200          -- tuples given back or expired by one call, at most
local SHAPES = 64          -- signatures a template with ANY looks at, at most
local READS = 256          -- waiting readers answered by one tuple, at most
local SILENT = 64          -- unreachable waiters passed over by one tuple, at most
local WAITER_MS = 30000    -- a waiter that no tick confirms leaves the line after this
local SESSION_MS = 900000  -- a session not seen for this long is forgotten
local SEEN_MS = 10000      -- how stale a session's last-seen time may be
local BUILD = 500          -- tuples put under a mask that was not asked by before, by one call
local REPLY_BYTES = 262144 -- a reply that is kept, at most, unless one tuple alone is larger
local TAKE_BYTES = 8388608 -- what one take gets, at most, unless one tuple alone is larger
local MAIL_BYTES = 1048576 -- a longer tuple is not sent to who waits: it stands, and is found at the next tick
local HEAD_BYTES = 256     -- no head is longer
local CHUNK = 1000         -- values per variadic call; Lua's stack ends at 8,000

local tuples, index, due, held, tries, takers, readers, waiting, sessions, replies, meta
local channel, now_us, now, someone_waits, masks_of

-- A name for the time in which this server forgets nothing: it is in memory, and in every space that it serves. One
-- that finds another name there, or none, was started, or made the master again, or the space was deleted.
local reign
-- By space: tuples up to this number were there when that was found; when it was, in ms; and whether there were none.
local old, since, from_nothing = {}, {}, {}

-- For how long, in ms, this server has surely forgotten nothing, as -1 and less if there was nothing before; and since
-- when, which is a name for that. Both are put before what a list has.
local function put_tenure_before(list)
  local ms = now - since[meta]
  insert(list, 1, since[meta])
  insert(list, 1, from_nothing[meta] and -1 - ms or ms)
end

local function number(n) return pack('>I6', n) end
local function value(s, at) return (unpack_number('>I6', s, at or 1)) end

-- Every operation starts here.
local function enter(keys)
  if not call then
    call, pack, unpack_number, floor = redis.call, struct.pack, struct.unpack, math.floor
    sub, byte, char, insert, concat = string.sub, string.byte, string.char, table.insert, table.concat
  end
  tuples, index, due, held, tries, takers, readers, waiting, sessions, replies, meta =
    keys[1], keys[2], keys[3], keys[4], keys[5], keys[6], keys[7], keys[8], keys[9], keys[10], keys[11]
  channel = sub(meta, 1, -5)
  local time = call('TIME')
  now_us = time[1] * 1000000 + time[2]
  now = floor(now_us / 1000)
  someone_waits, masks_of = nil, {}
  reign = reign or string.format('%.0f', now_us)
  if call('HGET', meta, 'PREFIXreign') ~= reign then
    call('HSET', meta, 'PREFIXreign', reign)
    old[meta] = tonumber(call('HGET', meta, 'seq') or 0)
    since[meta], from_nothing[meta] = now, old[meta] == 0
  elseif since[meta] > now then
    since[meta] = now -- its clock was put back
  end
end

-- A request guarded against repetition carries session(8) slot(2) sequence(6) and 'F' when it is
-- sent for the first time or 'R' when it may have been done already. Returns nil when it is to be
-- done now; else what to answer: a kept reply, or why there is none.
local function guard(blob)
  local session = sub(blob, 1, 8)
  local seen = call('ZSCORE', sessions, session)
  if not seen then
    if sub(blob, 17) == 'F' then return redis.error_reply('TSNOSESSION first') end
    return redis.error_reply('TSNOSESSION again')
  end
  if now - seen > SEEN_MS then call('ZADD', sessions, now, session) end
  local last = call('HGET', replies, sub(blob, 1, 10))
  if last then
    local sequence, mine = sub(last, 1, 6), sub(blob, 11, 16)
    if sequence == mine then return cmsgpack.unpack(sub(last, 7)) end
    if value(sequence) > value(mine) then return redis.error_reply('TSSTALE an old request arrived late') end
  end
  return nil
end

-- Forget sessions that were not seen for long, a few at a time.
local function forget_sessions()
  for _, session in ipairs(call('ZRANGEBYSCORE', sessions, '-inf', now - SESSION_MS, 'LIMIT', 0, 2)) do
    local slots = {}
    for i = 0, 511 do insert(slots, session .. pack('>I2', i)) end
    call('ZREM', sessions, session)
    call('HDEL', replies, unpack(slots))
  end
end

-- Keep the reply for a retry, and return it.
local function answer(blob, reply)
  call('HSET', replies, sub(blob, 1, 10), sub(blob, 11, 16) .. cmsgpack.pack(reply))
  return reply
end

-- Refuse a write whose token is older than one seen; '' is no fence, else token(8) name.
local function fenced(fence)
  if fence == '' then return nil end
  local token, field = sub(fence, 1, 8), 'f' .. sub(fence, 9)
  local highest = call('HGET', meta, field)
  if highest and unpack_number('>I8', highest) > unpack_number('>I8', token) then
    return redis.error_reply('TSFENCED ' .. string.format('%.0f', unpack_number('>I8', highest)))
  end
  if highest ~= token then call('HSET', meta, field, token) end
  return nil
end

-- All users of a tag must declare the same fields, or a tuple would stand in other buckets than
-- those that are asked. `tag` and `positions` are pieces. Returns an error reply or nil.
local function mismatch(tag, positions)
  local entry = call('HGET', meta, 'x' .. tag)
  if not entry then
    masks_of[tag] = '\0'
    if positions == '\0' then return nil end
    local bucket = '\0' .. tag
    if #call('ZRANGEBYLEX', index, '[' .. bucket, '(' .. bucket .. '\255', 'LIMIT', 0, 1) == 0 then
      call('HSET', meta, 'x' .. tag, positions .. '\0')
      return nil
    end
    return redis.error_reply('TSINDEX ')
  end
  local stop = byte(entry, 1) + 1
  masks_of[tag] = sub(entry, stop + 1)
  if sub(entry, 1, stop) == positions then return nil end
  local list = {}
  for i = 2, stop do insert(list, byte(entry, i)) end
  return redis.error_reply('TSINDEX ' .. concat(list, ','))
end

-- The masks by which tuples of a tag are indexed, one byte each.
local function masks(tag)
  if not masks_of[tag] then
    local entry = call('HGET', meta, 'x' .. tag)
    masks_of[tag] = entry and sub(entry, byte(entry, 1) + 2) or '\0'
  end
  return masks_of[tag]
end

-- The parts of a head that starts at `at`: tag, signature (pieces), tokens (pieces), the rest's start.
local function parse(record, at)
  local count = byte(record, at)
  at = at + count + 1
  local stop = at + byte(record, at)
  local tag = sub(record, at, stop)
  at = stop + 1
  stop = at + byte(record, at)
  local signature = sub(record, at, stop)
  at = stop + 1
  local tokens = {}
  for i = 1, count do
    stop = at + byte(record, at)
    tokens[i] = sub(record, at, stop)
    at = stop + 1
  end
  return tag, signature, tokens, at
end

local function split(record) return parse(record, byte(record, 1) == 1 and 8 or 2) end

-- The bucket of a tuple for one subset of its declared fields.
local function bucket_of(mask, tag, tokens)
  local parts = {char(mask), tag}
  for i = 1, #tokens do
    if mask % 2 == 1 then insert(parts, tokens[i]) end
    mask = floor(mask / 2)
  end
  return concat(parts)
end

-- All buckets in which somebody may wait for a tuple.
local function buckets(tag, tokens)
  local list = {}
  for mask = 0, 2 ^ #tokens - 1 do list[mask + 1] = bucket_of(mask, tag, tokens) end
  return list
end

local function variadic(command, key, list)
  for from = 1, #list, CHUNK do
    call(command, key, unpack(list, from, math.min(from + CHUNK - 1, #list)))
  end
end

-- Whether a signature fits a pattern; both are pieces, '?' is any type.
local function fits(pattern, signature)
  if pattern == signature then return true end
  if #pattern ~= #signature then return false end
  for i = 2, #pattern do
    local p = byte(pattern, i)
    if p ~= 63 and p ~= byte(signature, i) then return false end
  end
  return true
end

-- The distinct signatures (or patterns) present in a bucket of `key`, each found by one seek.
local function shapes(key, bucket, visit)
  local from, stop, start = '[' .. bucket, '(' .. bucket .. '\255', #bucket + 1
  for _ = 1, SHAPES do
    local first = call('ZRANGEBYLEX', key, from, stop, 'LIMIT', 0, 1)[1]
    if not first then return true end
    local shape = sub(first, start, start + byte(first, start))
    visit(shape, first)
    from = '(' .. bucket .. shape .. '\255'
  end
  return false
end

-- Members of the index that a template matches, oldest first, at most `limit`, numbers above
-- `after` ('' for all); nil when there are too many signatures to look at.
local function find(bucket, pattern, limit, after)
  local function one(shape)
    local prefix = bucket .. shape
    local from = after == '' and '[' .. prefix or '(' .. prefix .. after
    return call('ZRANGEBYLEX', index, from, '(' .. prefix .. '\255', 'LIMIT', 0, limit)
  end
  if not string.find(pattern, '?', 2, true) then return one(pattern) end
  local lists = {}
  local whole = shapes(index, bucket, function(shape)
    if fits(pattern, shape) then insert(lists, one(shape)) end
  end)
  if not whole then return nil end
  if #lists == 1 then return lists[1] end
  local all = {}
  for _, list in ipairs(lists) do
    for _, member in ipairs(list) do insert(all, member) end
  end
  table.sort(all, function(a, b) return value(a, #a - 5) < value(b, #b - 5) end)
  for i = limit + 1, #all do all[i] = nil end
  return all
end

local function expired(record)
  return byte(record, 1) == 1 and value(record, 2) <= now
end

-- Members under which a waiting tuple stands in the index.
local function members(seq, tag, signature, tokens)
  local tail = signature .. seq
  if #tokens == 0 then return {'\0' .. tag .. tail} end
  local used, list = masks(tag), {}
  for i = 1, #used do list[i] = bucket_of(byte(used, i), tag, tokens) .. tail end
  return list
end

-- Make sure that tuples of a tag are indexed by the mask a template asks by; false while that is
-- still being done, a bounded part by each call, and the question must be asked again.
local function indexed(bucket, tag)
  local mask = sub(bucket, 1, 1)
  if mask == '\0' then return true end
  local field, used = 'b' .. mask .. tag, masks(tag)
  local from
  if not string.find(used, mask, 1, true) then
    masks_of[tag] = used .. mask
    call('HSET', meta, 'x' .. tag, call('HGET', meta, 'x' .. tag) .. mask)
    from = '[\0' .. tag
  else
    from = call('HGET', meta, field)
    if not from then return true end
  end
  local found = call('ZRANGEBYLEX', index, from, '(\0' .. tag .. '\255', 'LIMIT', 0, BUILD)
  local ranks = {}
  for _, member in ipairs(found) do
    local seq = sub(member, -6)
    local record = call('HGET', tuples, seq)
    if record then
      local _, signature, tokens = split(record)
      insert(ranks, 0)
      insert(ranks, bucket_of(byte(mask), tag, tokens) .. signature .. seq)
    end
  end
  variadic('ZADD', index, ranks)
  if #found < BUILD then
    call('HDEL', meta, field)
    return true
  end
  call('HSET', meta, field, '(' .. found[#found])
  return false
end

local function forget(seq, record)
  call('HDEL', tuples, seq)
  call('HDEL', tries, seq)
  if byte(record, 1) == 1 then call('ZREM', due, 'T' .. seq) end
end

-- Whether a record is longer than a caller wants to read. Whoever may write into a space may write what
-- no client of ours would, so nothing is read before its length is known.
local function too_long(seq, longest) return call('HSTRLEN', tuples, seq) > longest + HEAD_BYTES end

-- Of the members of the index that were found, those whose tuples can be given to a caller. The others leave
-- the space: too long, or gone already. A tuple that is too long is not read, so it may still stand under
-- other masks, and leaves those when it is found there. Then how many were too long, and the lengths of the others.
local function bearable(found, longest)
  local kept, dropped, sizes = {}, 0, {}
  for _, member in ipairs(found) do
    local seq = sub(member, -6)
    local size = call('HSTRLEN', tuples, seq)
    if size == 0 or size > longest + HEAD_BYTES then
      call('ZREM', index, member)
      call('HDEL', tuples, seq)
      call('HDEL', tries, seq)
      call('ZREM', due, 'T' .. seq)
      if size > 0 then dropped = dropped + 1 end
    else
      insert(kept, member)
      insert(sizes, size)
    end
  end
  return kept, dropped, sizes
end

-- How often a tuple was delivered before, as far as is known; once at least if that may have been forgotten.
-- `counts` is false if no tuple was delivered in vain.
local function delivered(seq, counts)
  local count = counts and tonumber(call('HGET', tries, seq) or 0) or 0
  if count == 0 and value(seq) <= old[meta] then return 1 end
  return count
end

-- Write a lease on these numbers.
local function grant(lease, terms, numbers)
  call('HSET', held, lease, terms .. numbers)
  call('ZADD', due, now + value(terms), 'L' .. lease)
end

-- Take a waiter out of its line.
local function leave_line(waiter, kind, member)
  call('ZREM', kind == 't' and takers or readers, member)
  call('HDEL', waiting, waiter, sub(member, -6))
  call('ZREM', due, 'W' .. waiter)
end

-- Send to a waiter's mailbox; false when nobody listens there.
local function mail(waiter, kind, seq, payload)
  return call('SPUBLISH', channel .. 'mail:' .. sub(waiter, 1, 8),
    kind .. waiter .. number(delivered(seq, true)) .. payload) > 0
end

-- Give copies of a new tuple to those who wait to read it.
local function show(seq, payload, list, signature)
  if #payload > MAIL_BYTES then return end
  local left = READS
  for _, bucket in ipairs(list) do
    shapes(readers, bucket, function(pattern)
      if not fits(pattern, signature) then return end
      local prefix = bucket .. pattern
      local line = call('ZRANGEBYLEX', readers, '[' .. prefix, '(' .. prefix .. '\255', 'LIMIT', 0, left)
      for _, member in ipairs(line) do
        local waiter = sub(call('HGET', waiting, sub(member, -6)), 10)
        leave_line(waiter, 'r', member)
        mail(waiter, 'r', seq, payload)
        left = left - 1
      end
    end)
  end
end

-- Hand a tuple to the longest-waiting taker that can be reached: true when one has it, leased.
-- A waiter that cannot be reached leaves the line; its next tick puts it back in its old place.
local function hand_over(seq, record, payload, list, signature)
  if #payload > MAIL_BYTES then return false end
  for _ = 1, SILENT do
    local best
    for _, bucket in ipairs(list) do
      shapes(takers, bucket, function(pattern, first)
        if fits(pattern, signature) and (not best or value(first, #first - 5) < value(best, #best - 5)) then best = first end
      end)
    end
    if not best then return false end
    local entry = call('HGET', waiting, sub(best, -6))
    local terms, waiter = sub(entry, 1, 9), sub(entry, 10)
    leave_line(waiter, 't', best)
    if mail(waiter, 't', seq, payload) then
      grant(waiter, sub(terms, 1, 8) .. sub(record, 1, 1), seq)
      return true
    end
  end
  return false
end

-- Offer a tuple that belongs to nobody to those who wait: true when a taker has it now.
local function offer(seq, record)
  if someone_waits == nil then
    someone_waits = call('HLEN', waiting) > 0
  end
  if not someone_waits then return false end
  local tag, signature, tokens, at = split(record)
  local list, payload = buckets(tag, tokens), sub(record, at)
  show(seq, payload, list, signature)
  return hand_over(seq, record, payload, list, signature)
end

-- Put a tuple (back) into the index, under the number it has.
local function stand(seq, record)
  local tag, signature, tokens = split(record)
  local arguments = {}
  for _, member in ipairs(members(seq, tag, signature, tokens)) do
    insert(arguments, 0)
    insert(arguments, member)
  end
  call('ZADD', index, unpack(arguments))
end

local function watched() return tonumber(call('HGET', meta, 'watch') or 0) > now end

local function tell(kind, payloads)
  if #payloads > 0 and watched() then
    call('SPUBLISH', channel .. 'watch', kind .. cmsgpack.pack(payloads))
  end
end

-- Write new tuples: args[from], args[from + 1], ... are ttl ms (''), head, payload of each.
local function write(args, from)
  local count = (#args - from + 1) / 3
  if count == 0 then return end
  local last = call('HINCRBY', meta, 'seq', count)
  local seq_value = last - count
  local records, ranks, events = {}, {}, {}
  local watching = watched()
  for i = from, #args, 3 do
    seq_value = seq_value + 1
    local seq, ttl, head, payload = number(seq_value), args[i], args[i + 1], args[i + 2]
    local expiry = '\0'
    if ttl ~= '' then
      expiry = '\1' .. number(now + tonumber(ttl))
      call('ZADD', due, now + tonumber(ttl), 'T' .. seq)
    end
    local record = expiry .. head .. payload
    if watching then insert(events, payload) end
    if offer(seq, record) then
      call('HSET', tuples, seq, record)
    else
      insert(records, seq)
      insert(records, record)
      if byte(head, 1) == 0 then
        insert(ranks, 0)
        insert(ranks, head .. seq)  -- such a head is the tuple's only bucket, and its signature
      else
        local tag, signature, tokens = parse(head, 1)
        for _, member in ipairs(members(seq, tag, signature, tokens)) do
          insert(ranks, 0)
          insert(ranks, member)
        end
      end
    end
  end
  variadic('HSET', tuples, records)
  variadic('ZADD', index, ranks)
  if watching then tell('o', events) end
end

-- Check the declared fields of what is to be written; returns an error reply or nil.
local function undeclared(args, from)
  local known
  for i = from + 1, #args, 3 do
    local head = args[i]
    local stop = byte(head, 1) + 1
    local declared = sub(head, 1, stop + 1 + byte(head, stop + 1))
    if declared ~= known then
      local problem = mismatch(sub(declared, stop + 1), sub(declared, 1, stop))
      if problem then return problem end
      known = declared
    end
  end
  return nil
end

-- A tuple delivered too often becomes ("dead-letter", the tuple, how often), written anew.
local DEAD = '\0\12\171dead-letter\3sti'
local function bury(seq, record, count)
  local _, _, _, at = split(record)
  forget(seq, record)
  write({'', DEAD, '\147\171dead-letter' .. sub(record, at) .. cmsgpack.pack(count)}, 1)
end

-- Give one leased tuple back to the space, in its old place.
local function give_back(seq, allowed, counted)
  local record = call('HGET', tuples, seq)
  if not record then return end
  if expired(record) then return forget(seq, record) end
  if counted then
    local count = call('HINCRBY', tries, seq, 1)
    if allowed > 0 and count >= allowed then return bury(seq, record, count) end
  end
  if not offer(seq, record) then stand(seq, record) end
end

-- Give back a lease, or as much of it as the budget allows; returns how many tuples that were. What is
-- left is due at once, and remembers whether giving it back counts as a delivery.
local function end_lease(lease, counted, budget)
  local entry = call('HGET', held, lease)
  if not entry then
    call('ZREM', due, 'L' .. lease)
    return 0
  end
  local mark = byte(entry, 9)
  if mark >= 2 then counted = false end
  local terms, numbers = sub(entry, 1, 8), sub(entry, 10)
  local allowed, count = unpack_number('>I2', terms, 7), math.min(#numbers / 6, budget)
  if count * 6 == #numbers then
    call('HDEL', held, lease)
    call('ZREM', due, 'L' .. lease)
  else
    call('HSET', held, lease, terms .. char(mark % 2 + (counted and 0 or 2)) .. sub(numbers, count * 6 + 1))
    call('ZADD', due, now, 'L' .. lease)
  end
  for i = 0, count - 1 do give_back(sub(numbers, i * 6 + 1, i * 6 + 6), allowed, counted) end
  return count
end

-- Forget a waiting tuple whose time is over; a leased one is left to its lease's end.
local function expire(seq)
  call('ZREM', due, 'T' .. seq)
  local record = call('HGET', tuples, seq)
  if not record then return end
  local tag, signature, tokens = split(record)
  if call('ZREM', index, unpack(members(seq, tag, signature, tokens))) > 0 then forget(seq, record) end
end

-- Do what is due, a bounded part of it: leases that ended, tuples that expired, waiters not heard of.
local function sweep()
  local list = call('ZRANGEBYSCORE', due, '-inf', now, 'LIMIT', 0, SWEEP)
  local budget = SWEEP
  for _, entry in ipairs(list) do
    if budget <= 0 then return true end
    local kind, name = sub(entry, 1, 1), sub(entry, 2)
    if kind == 'L' then
      budget = budget - end_lease(name, true, budget)
    elseif kind == 'T' then
      expire(name)
    else
      local place = call('HGET', waiting, name)
      if place then leave_line(name, sub(place, 1, 1), sub(place, 2)) else call('ZREM', due, entry) end
    end
  end
  return #list == SWEEP or budget <= 0
end

-- Take up to `many` waiting tuples under a lease, none longer than `longest` bytes: returns how many were
-- longer and dropped, then {tries, payload, ...}, or nil when there are none; the third value says that time
-- ran out on some, or some were dropped, and the caller must ask again.
local function take(lease, terms, bucket, pattern, many, longest)
  local members_found = find(bucket, pattern, many, '')
  if not members_found then return 0, redis.error_reply('TSSHAPES ' .. SHAPES) end
  if #members_found == 0 then return 0, nil, false end
  local found, dropped, sizes = bearable(members_found, longest)
  local names, gone, numbers, reply, bytes = {}, {}, {}, {}, 0
  for i, member in ipairs(found) do
    bytes = bytes + sizes[i]
    if bytes > TAKE_BYTES and i > 1 then break end
    names[i] = sub(member, -6)
  end
  local records = {}
  for from = 1, #names, CHUNK do
    local part = call('HMGET', tuples, unpack(names, from, math.min(from + CHUNK - 1, #names)))
    for i = 1, #part do records[from + i - 1] = part[i] end
  end
  local counts = call('HLEN', tries) > 0
  local expires = '\0'
  for i, seq in ipairs(names) do
    local record = records[i]
    local tag, signature, tokens, at = split(record)
    if #tokens == 0 then
      insert(gone, found[i])
    else
      for _, member in ipairs(members(seq, tag, signature, tokens)) do insert(gone, member) end
    end
    if expired(record) then
      forget(seq, record)
    else
      if byte(record, 1) == 1 then expires = '\1' end
      insert(numbers, seq)
      insert(reply, delivered(seq, counts))
      insert(reply, sub(record, at))
    end
  end
  variadic('ZREM', index, gone)
  if #numbers == 0 then return dropped, nil, true end
  grant(lease, sub(terms, 1, 8) .. expires, concat(numbers))
  return dropped, reply, false
end

-- What a lease holds, as take() returned it, without what is too long; nil when the lease has ended.
local function holding(lease, longest)
  local entry = call('HGET', held, lease)
  if not entry or tonumber(call('ZSCORE', due, 'L' .. lease) or 0) <= now then return nil end
  local reply = {}
  for i = 10, #entry, 6 do
    local seq = sub(entry, i, i + 5)
    local payload = ''
    if not too_long(seq, longest) then
      local record = call('HGET', tuples, seq)
      if record then
        local _, _, _, at = split(record)
        payload = sub(record, at)
      end
    end
    insert(reply, delivered(seq, true))
    insert(reply, payload)
  end
  return reply
end

-- Join the line: `turn` is '' for its end, or the place given before. Returns the turn.
local function join_line(kind, waiter, terms, bucket, pattern, turn)
  local place = call('HGET', waiting, waiter)
  if place then return sub(place, -6) end
  if turn == '' then turn = number(call('HINCRBY', meta, 'turn', 1)) end
  local member = bucket .. pattern .. turn
  call('ZADD', kind == 't' and takers or readers, 0, member)
  call('HSET', waiting, turn, terms .. waiter, waiter, kind .. member)
  call('ZADD', due, now + WAITER_MS, 'W' .. waiter)
  return turn
end

-- Whether something stands in the space for a waiter in line. It can, when a tuple met more waiters
-- than one call serves; the waiter then leaves the line, to ask anew in its old turn.
local function overlooked(waiter, place)
  local mask, at = byte(place, 2), 3
  at = at + byte(place, at) + 1
  while mask > 0 do
    if mask % 2 == 1 then at = at + byte(place, at) + 1 end
    mask = floor(mask / 2)
  end
  local found = find(sub(place, 2, at - 1), sub(place, at, -7), 1, '')
  if not found or #found == 0 then return false end
  leave_line(waiter, sub(place, 1, 1), sub(place, 2))
  return true
end
