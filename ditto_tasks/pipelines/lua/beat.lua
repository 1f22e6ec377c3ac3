-- Note that a step of a pipeline is still at work.
-- KEYS[1] record
if redis.call("EXISTS", KEYS[1]) == 1 then
    local time = redis.call("TIME")
    redis.call("HSET", KEYS[1], "active", string.format("%d", time[1] * 1000 + math.floor(time[2] / 1000)))
end
return 0
