-- End a running pipeline; a pipeline ends once.
-- KEYS[1] record, KEYS[2] events
-- ARGV[1] state, [2] error as JSON or null, [3] event as JSON, [4] ms to keep events
-- returns the state that it is in, or nothing where there is no such pipeline
local state = redis.call("HGET", KEYS[1], "state")
if state == "running" then
    local time = redis.call("TIME")
    local now = string.format("%d", time[1] * 1000 + math.floor(time[2] / 1000))
    redis.call("HSET", KEYS[1], "state", ARGV[1], "error", ARGV[2], "ended", now)
    redis.call("XADD", KEYS[2], "MAXLEN", "~", 1000, "*", "type", "pipeline", "data", ARGV[3])
    redis.call("PEXPIRE", KEYS[2], ARGV[4])
    return ARGV[1]
end
return state
