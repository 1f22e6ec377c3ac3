-- Prelude: put a name on a list (sorted set: name -> when it has expired, in ms), and drop what has expired.
local function note(list, ms, name)
    local time = redis.call("TIME")
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    redis.call("ZREMRANGEBYSCORE", list, "-inf", string.format("%d", now))
    redis.call("ZADD", list, "GT", string.format("%d", now + ms), name)
    if redis.call("PTTL", list) < tonumber(ms) then
        redis.call("PEXPIRE", list, ms)
    end
end
