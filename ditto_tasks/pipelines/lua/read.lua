-- Read fields of a record together with the server's clock.
-- KEYS[1] record
-- ARGV fields
-- returns {ms since the epoch, {value or nothing, …}}
local time = redis.call("TIME")
return {string.format("%d", time[1] * 1000 + math.floor(time[2] / 1000)), redis.call("HMGET", KEYS[1], unpack(ARGV))}
