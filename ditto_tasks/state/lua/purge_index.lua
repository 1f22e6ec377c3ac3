-- Drops what has expired by this server's clock from an index.
-- KEYS[1] index.  Returns the number dropped.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
return redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
