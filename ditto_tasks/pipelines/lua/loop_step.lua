-- Record what an iteration made of the state, once.
-- KEYS[1] record, [2] events
-- ARGV[1] iteration, [2] state of the loop as JSON, [3] "done" or "running", [4] event, [5] ms to keep events
-- returns the state of the run, or nothing without a record
local state, iteration = unpack(redis.call("HMGET", KEYS[1], "state", "iteration"))
if state == "running" and iteration == ARGV[1] then
    local time = redis.call("TIME")
    state = ARGV[3]
    redis.call("HSET", KEYS[1], "state", state, "value", ARGV[2])
    redis.call("HINCRBY", KEYS[1], "iteration", 1)
    if state == "done" then
        redis.call("HSET", KEYS[1], "ended", string.format("%d", time[1] * 1000 + math.floor(time[2] / 1000)))
    end
    redis.call("XADD", KEYS[2], "MAXLEN", "~", 1000, "*", "type", "pipeline", "data", ARGV[4])
    redis.call("PEXPIRE", KEYS[2], ARGV[5])
end
return state
