-- Note that a step begins (again).
-- KEYS[1] record, KEYS[2] events
-- ARGV[1] step, [2] event as JSON, [3] ms to keep events
-- returns {state, last step, result or false}, or nothing where there is no such pipeline
local found = redis.call("HMGET", KEYS[1], "state", "last", "result:" .. ARGV[1])
if not found[1] then
    return nil
end
if found[1] == "running" and not found[3] then
    local time = redis.call("TIME")
    local now = string.format("%d", time[1] * 1000 + math.floor(time[2] / 1000))
    redis.call("HSET", KEYS[1], "active", now, "began:" .. ARGV[1], now)
    redis.call("XADD", KEYS[2], "MAXLEN", "~", 1000, "*", "type", "step", "data", ARGV[2])
    redis.call("PEXPIRE", KEYS[2], ARGV[3])
end
return found
