-- Give a shard up; a message still in flight goes back to the head of its queue.
-- KEYS lease, shard, queue, inflight
-- ARGV owner, channel that tells waiting workers
-- returns 1, or 0 if the lease was not the caller's (any more)
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
    return 0
end
while redis.call('LMOVE', KEYS[4], KEYS[3], 'LEFT', 'RIGHT') do
    redis.call('HSET', KEYS[2], 'tried', 1)
end
redis.call('HDEL', KEYS[2], 'started')
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', ARGV[2], 'released')
return 1
