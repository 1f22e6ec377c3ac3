-- End a run that has not ended yet; nodes at work settle all the same.
-- KEYS as in graph_shared
-- ARGV[1] state, [2] error as JSON, [3] event as JSON, [4] ms to keep events
-- returns the state that it is in, or nothing without a record
if state == "running" then
    state = ARGV[1]
    redis.call("HSET", record, "state", state, "error", ARGV[2], "ended", now)
    event("pipeline", ARGV[3], ARGV[4])
end
return state
