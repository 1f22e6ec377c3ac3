-- Let a run that failed or was cancelled go on from what was settled; nodes that raised are to run again.
-- KEYS as in graph_shared; the list of its shard is the one that the record names
-- ARGV[1] run, [2] ms until its new deadline, [3] ms to keep it after that, [4] event as JSON, [5] ms to keep
--   events, then ids of nodes that raised
-- returns the state that it was in, or nothing without a record
if not state or state == "running" or state == "done" then
    return state
end
local until_ms = string.format("%d", clock + ARGV[2])
local list = redis.call("HGET", record, "list")
redis.call("HSET", record, "state", "running", "deadline", until_ms)
redis.call("HDEL", record, "error", "ended", "failures")
for _, key in ipairs({record, outputs, flight}) do
    redis.call("PEXPIRE", key, ARGV[2] + ARGV[3])
end
for at = 6, #ARGV do
    if redis.call("HDEL", record, "raised:" .. ARGV[at]) == 1 then
        redis.call("HDEL", record, "ended:" .. ARGV[at], "deaths:" .. ARGV[at])
        to_ready(ARGV[at])
    end
end
keep(ready)
redis.call("ZADD", list, until_ms, ARGV[1])
redis.call("PEXPIRE", list, math.max(redis.call("PTTL", list), ARGV[2] + ARGV[3]))
event("pipeline", ARGV[4], ARGV[5])
if redis.call("HGET", record, "todo") == "0" then -- the last node settled after the run had ended
    redis.call("HSET", record, "state", "done", "ended", now)
end
return state
