-- Record a node's output, end the run if it was the last, and hand out what may start now.
-- KEYS as in graph_shared
-- ARGV[1] node, [2] attempt, [3] output as JSON, [4] "1" if it says that it was stopped, [5] attempts to add if
--   it is to run again, [6] event of the node, [7] event of the run's end, [8] ms to keep events
-- returns {state, deadline, headers, {{node, attempt, specification} …}}, or nothing without a record
local node = ARGV[1]
local ended, attempt = unpack(redis.call("HMGET", record, "ended:" .. node, "attempt:" .. node))
if not state then
    return nil
elseif ended or attempt ~= ARGV[2] then
    return {state, deadline, "{}", {}}
elseif ARGV[4] == "1" and (state ~= "running" or clock >= tonumber(deadline)) then
    redis.call("HINCRBY", record, "attempt:" .. node, ARGV[5])
    to_ready(node) -- stopped together with its run: no output that counts
    return {state, deadline, "{}", {}}
end
redis.call("ZREM", flight, node)
redis.call("HSET", record, "ended:" .. node, now)
redis.call("HSET", outputs, node, ARGV[3])
keep(outputs)
event("step", ARGV[6], ARGV[8])
for after in string.gmatch(redis.call("HGET", record, "next:" .. node) or "", "%S+") do
    if redis.call("HINCRBY", record, "left:" .. after, -1) == 0 then
        to_ready(after)
    end
end
if redis.call("HINCRBY", record, "todo", -1) == 0 and state == "running" then
    state = "done"
    redis.call("HSET", record, "state", state, "ended", now)
    event("pipeline", ARGV[7], ARGV[8])
end
return hand_out({})
