-- Record that a node raised, and end its run: as failed, or as cancelled if that is why. Nothing new is started.
-- KEYS as in graph_shared, [6] what asks the tasks of the run to stop
-- ARGV[1] node, [2] attempt, [3] error as JSON, [4] "1" if it was stopped, [5] attempts to add if it is to run
--   again, [6] how often the run had been resumed when it began, [7] event of the node, [8] event of the run's end, [9] ms to keep
--   events, [10] error of a cancelled run, [11] event of its end
-- returns "failed" or "cancelled" if this ended the run, "running" if the run goes on, else nothing: whoever ended it tells of it
local node = ARGV[1]
local ended, attempt = unpack(redis.call("HMGET", record, "ended:" .. node, "attempt:" .. node))
if not state or ended or attempt ~= ARGV[2] then
    return state == "running" and state or nil
end
redis.call("HINCRBY", record, "attempt:" .. node, ARGV[5])
if ARGV[4] == "1" then
    local before = state
    end_if_asked(KEYS[6], ARGV[10], ARGV[11], ARGV[9])
    if stopped_with_run(ARGV[6]) then
        to_ready(node)
        return (state ~= before or state == "running") and state or nil
    end
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
