-- Prelude of the scripts that write the operation log, a hash:
-- "op:<id>" -> "<input hash> <kind> <value>", "slot:<n>" -> the field in that place, "count", "epoch".
-- The slots are a ring: a new operation takes the place of the oldest of the newest `kept` ones.
-- Kinds: v = wrote version <value>, c = refused with code <value>, x = the attempts to write the versions
-- <value> were given up; they must not be applied late, while the operation itself is still open.
local function outcome_of(entry)
  return entry and not string.find(entry, '^%S+ x ') and entry
end

local function remember(log, field, known, text, epoch, kept, ttl)
  if not known then
    local slot = 'slot:' .. (redis.call('HINCRBY', log, 'count', 1) % tonumber(kept))
    local oldest = redis.call('HGET', log, slot)
    if oldest then redis.call('HDEL', log, oldest) end
    redis.call('HSET', log, slot, field)
  end
  redis.call('HSET', log, field, text, 'epoch', epoch)
  redis.call('PEXPIRE', log, ttl)
end
