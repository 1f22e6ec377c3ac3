-- Notes that a scope has a record, until it expires by this server's clock.
-- KEYS[1] index.  ARGV: 1 canonical scope JSON, 2 ttl ms.  Returns 1.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[2]), ARGV[1])
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 1
