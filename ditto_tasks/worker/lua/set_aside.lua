-- Move the head of a shard's queue to the dead letters, as the entry that the caller made of it.
-- KEYS queue, dead
-- ARGV message, entry
-- returns 1, or 0 if another message is at the head now
if redis.call('LINDEX', KEYS[1], -1) ~= ARGV[1] then
    return 0
end
redis.call('RPOP', KEYS[1])
redis.call('LPUSH', KEYS[2], ARGV[2])
return 1
