-- Note that steps of a pipeline were sent again.
-- KEYS[1] record
if redis.call("EXISTS", KEYS[1]) == 1 then
    local time = redis.call("TIME")
    redis.call("HSET", KEYS[1], "active", string.format("%d", time[1] * 1000 + math.floor(time[2] / 1000)))
    redis.call("HINCRBY", KEYS[1], "resent", 1)
end
return 0
