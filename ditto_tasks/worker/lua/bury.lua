-- Move the message in flight to the dead letters, as the entry that the caller made of it.
-- KEYS shard, inflight, dead
-- ARGV epoch, seq, entry
-- returns 1, or 0 if that message is not in flight under that epoch
local known = redis.call('HMGET', KEYS[1], 'epoch', 'seq')
if known[1] ~= ARGV[1] or known[2] ~= ARGV[2] or redis.call('DEL', KEYS[2]) == 0 then
    return 0
end
redis.call('LPUSH', KEYS[3], ARGV[3])
redis.call('HDEL', KEYS[1], 'started', 'deaths', 'tried')
return 1
