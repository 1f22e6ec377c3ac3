-- Say that a worker lives and read who else does, by the server's clock.
-- KEYS workers, shard count, whose shards these are
-- ARGV owner, lease in ms, channel that tells the other workers of a newcomer, shard count of the caller,
--      deployment of the caller
-- returns {deployment, shard count, live worker, live worker, ...}
local now = redis.call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ms)
if redis.call('ZADD', KEYS[1], ms + ARGV[2], ARGV[1]) == 1 then
    redis.call('PUBLISH', ARGV[3], 'joined')
end
redis.call('PEXPIRE', KEYS[1], 2 * ARGV[2])
redis.call('SET', KEYS[2], ARGV[4], 'NX')
redis.call('SET', KEYS[3], ARGV[5], 'NX')
local workers = redis.call('ZRANGE', KEYS[1], 0, -1)
table.insert(workers, 1, redis.call('GET', KEYS[2]))
table.insert(workers, 1, redis.call('GET', KEYS[3]))
return workers
