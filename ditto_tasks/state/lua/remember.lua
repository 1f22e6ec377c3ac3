-- Prelude of the scripts on an operation log, a hash:
-- "op:<id>" -> "<number> <input hash> <kind> <value>", "count" = the highest number, "epoch" = the highest seen,
-- "scope" = whose log this is, which the key's hash can't tell whoever has to erase it.
-- Kinds: v = wrote version <value>, c = refused with code <value>, x = the attempts to write the versions
-- <value> were given up; they must not be applied late, while the operation itself is still open.
-- KEPT operations are known at least; older ones are dropped when SWEEP more have come, which costs less each.

local function outcome_of(entry)
  return entry and not string.find(entry, '^%d+ %S+ x ') and entry
end

-- Called by scripts whose ARGV[4] is the scope. epoch and count are strings, as numbers cost their formatting at
-- each use; newest = the epoch recorded.
local function remember(log, field, text, epoch, newest, count)
  if not count then redis.call('HSET', log, 'scope', ARGV[4]) end
  count = string.format('%d', (count or 0) + 1)
  if epoch == newest then
    redis.call('HSET', log, field, count .. text, 'count', count)
  else
    redis.call('HSET', log, field, count .. text, 'count', count, 'epoch', epoch)
  end
  redis.call('PEXPIRE', log, LOG_TTL_MS)
  if count % SWEEP ~= 0 then return end
  local fields = redis.call('HGETALL', log)
  for i = 1, #fields, 2 do
    local number = string.match(fields[i + 1], '^(%d+) ')
    if number and tonumber(number) <= count - KEPT then redis.call('HDEL', log, fields[i]) end
  end
end
