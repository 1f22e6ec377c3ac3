-- Mark the message in flight as started: from here on its owner's death counts against it.
-- KEYS shard, inflight [, marks that would stop it ...]
-- ARGV epoch, seq
-- returns 1, 2 if one of the marks exists, or 0 if that message is not in flight under that epoch
local known = redis.call('HMGET', KEYS[1], 'epoch', 'seq')
if known[1] ~= ARGV[1] or known[2] ~= ARGV[2] or redis.call('EXISTS', KEYS[2]) == 0 then
    return 0
end
local now = redis.call('TIME')
redis.call('HSET', KEYS[1], 'started', string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000)))
for place = 3, #KEYS do
    if redis.call('EXISTS', KEYS[place]) == 1 then
        return 2
    end
end
return 1
