-- Read a whole record together with the server's clock.
-- KEYS[1] record
-- returns {ms since the epoch, {field, value, …}}
local time = redis.call("TIME")
return {string.format("%d", time[1] * 1000 + math.floor(time[2] / 1000)), redis.call("HGETALL", KEYS[1])}
