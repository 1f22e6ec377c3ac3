-- Fence off a task that overstays, without giving the shard up: a new epoch, its message back at the head.
-- KEYS lease, shard, queue, inflight
-- ARGV owner, epoch
-- returns the new epoch, or '' if the caller no longer holds the shard under the epoch it names
if redis.call('GET', KEYS[1]) ~= ARGV[1] or redis.call('HGET', KEYS[2], 'epoch') ~= ARGV[2] then
    return ''
end
local now = redis.call('TIME')
local epoch = string.format('%.0f', math.max(ARGV[2] + 1, now[1] * 1000 + math.floor(now[2] / 1000)))
while redis.call('LMOVE', KEYS[4], KEYS[3], 'LEFT', 'RIGHT') do
    redis.call('HSET', KEYS[2], 'tried', 1)
end
redis.call('HDEL', KEYS[2], 'started')
redis.call('HSET', KEYS[2], 'epoch', epoch)
return epoch
