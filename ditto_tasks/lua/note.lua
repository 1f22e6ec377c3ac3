-- Put a name on a list until it has expired, and drop what has.
-- KEYS[1] list (sorted set: name -> when it has expired, in ms)
-- ARGV[1] ms, [2] name
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call("ZREMRANGEBYSCORE", KEYS[1], "-inf", string.format("%d", now))
redis.call("ZADD", KEYS[1], "GT", string.format("%d", now + ARGV[1]), ARGV[2])
if redis.call("PTTL", KEYS[1]) < tonumber(ARGV[1]) then
    redis.call("PEXPIRE", KEYS[1], ARGV[1])
end
return 1
