-- Record that a node raised, and end its run as failed: nothing new is started.
-- KEYS as in graph_shared
-- ARGV[1] node, [2] attempt, [3] error as JSON, [4] "1" if it was stopped, [5] attempts to add if it is to run
--   again, [6] how often the run had been resumed when it began, [7] event of the node, [8] event of the run's end, [9] ms to keep
--   events
-- returns "failed" if this ended the run, "running" if the run goes on, else nothing: whoever ended it tells of it
local node = ARGV[1]
local ended, attempt = unpack(redis.call("HMGET", record, "ended:" .. node, "attempt:" .. node))
if not state or ended or attempt ~= ARGV[2] then
    return state == "running" and state or nil
end
redis.call("HINCRBY", record, "attempt:" .. node, ARGV[5])
if ARGV[4] == "1" and stopped_with_run(ARGV[6]) then
    to_ready(node)
    return state == "running" and state or nil
end
redis.call("ZREM", flight, node)
redis.call("HSET", record, "ended:" .. node, now, "raised:" .. node, ARGV[3])
redis.call("HINCRBY", record, "failures", 1)
event("step", ARGV[7], ARGV[9])
if state ~= "running" then
    return nil
end
redis.call("HSET", record, "state", "failed", "error", ARGV[3], "ended", now)
event("pipeline", ARGV[8], ARGV[9])
return "failed"
