-- Record the result of a step; the first one stands.
-- KEYS[1] record, KEYS[2] events
-- ARGV[1] step, [2] result as JSON, [3] event as JSON, [4] ms to keep events
-- returns the result that stands
if redis.call("EXISTS", KEYS[1]) == 0 then
    return ARGV[2]
end
local field = "result:" .. ARGV[1]
if redis.call("HSETNX", KEYS[1], field, ARGV[2]) == 1 then
    local time = redis.call("TIME")
    local now = string.format("%d", time[1] * 1000 + math.floor(time[2] / 1000))
    redis.call("HSET", KEYS[1], "active", now, "resent", "0", "ended:" .. ARGV[1], now)
    redis.call("XADD", KEYS[2], "MAXLEN", "~", 1000, "*", "type", "step", "data", ARGV[3])
    redis.call("PEXPIRE", KEYS[2], ARGV[4])
end
return redis.call("HGET", KEYS[1], field)
