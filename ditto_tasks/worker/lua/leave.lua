-- Take a worker off the list of the living, so that its shards move without waiting for a lease to lapse.
-- KEYS workers
-- ARGV owner, channel that tells the other workers
-- returns 1, or 0 if it was not on the list
local left = redis.call('ZREM', KEYS[1], ARGV[1])
if left == 1 then
    redis.call('PUBLISH', ARGV[2], 'left')
end
return left
