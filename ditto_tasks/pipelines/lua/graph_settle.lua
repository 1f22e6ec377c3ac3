-- Record a node's output, end the run if it was the last, and hand out what may start now.
-- KEYS as in graph_shared, [6] what asks the tasks of the run to stop
-- ARGV[1] node, [2] attempt, [3] output as JSON, [4] "1" if it says that it was stopped, [5] attempts to add if
--   it is to run again, [6] how often the run had been resumed when it began, [7] event of the node, [8] event of the run's end,
--   [9] ms to keep events, [10] error of a cancelled run, [11] event of its end
-- returns {state, deadline, resumes, headers, {{node, attempt, specification} …}}, or nothing without a record
local node = ARGV[1]
local ended, attempt = unpack(redis.call("HMGET", record, "ended:" .. node, "attempt:" .. node))
if not state then
    return nil
elseif ended or attempt ~= ARGV[2] then
    return {state, deadline, resumes, "{}", {}}
end
if ARGV[4] == "1" then
    end_if_asked(KEYS[6], ARGV[10], ARGV[11], ARGV[9])
end
if ARGV[4] == "1" and stopped_with_run(ARGV[6]) then -- this is no output that counts
    redis.call("HINCRBY", record, "attempt:" .. node, ARGV[5])
    to_ready(node)
    return hand_out({})
end
redis.call("ZREM", flight, node)
redis.call("HSET", record, "ended:" .. node, now)
redis.call("HSET", outputs, node, ARGV[3])
event("step", ARGV[7], ARGV[9])
for after in string.gmatch(redis.call("HGET", record, "next:" .. node) or "", "%S+") do
    if redis.call("HINCRBY", record, "left:" .. after, -1) == 0 then
        to_ready(after)
    end
end
if redis.call("HINCRBY", record, "todo", -1) == 0 and state == "running" then
    state = "done"
    redis.call("HSET", record, "state", state, "ended", now)
    event("pipeline", ARGV[8], ARGV[9])
end
return hand_out({})
