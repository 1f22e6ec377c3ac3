-- Begin a node, unless this delivery is of no use.
-- KEYS as in graph_shared
-- ARGV[1] node, [2] attempt, [3] "1" if its shard delivers it again, [4] ms of silence after which nobody is
--   at work, [5] event as JSON, [6] ms to keep events
-- returns {"run", specification, deadline, resumes, input, output of each dependency …}, or {why not}: settled, stale, busy, ended
local node = ARGV[1]
local ended, attempt, began, resent, spec, dependencies = unpack(redis.call("HMGET", record, "ended:" .. node,
    "attempt:" .. node, "began:" .. node, "resent:" .. node, "spec:" .. node, "deps:" .. node))
local active = redis.call("ZSCORE", flight, node)
if not state then
    return nil
elseif ended then
    return {"settled"}
elseif attempt ~= ARGV[2] then
    return {"stale"}
elseif state ~= "running" or clock >= tonumber(deadline) then
    if active and not began then
        to_ready(node)
    end
    return {"ended"}
elseif began and active and not resent and ARGV[3] ~= "1" and clock - active < tonumber(ARGV[4]) then
    return {"busy"}
end
redis.call("ZREM", ready, node)
redis.call("ZADD", flight, now, node)
keep(flight)
redis.call("HSET", record, "began:" .. node, now)
redis.call("HDEL", record, "resent:" .. node)
event("step", ARGV[5], ARGV[6])
local given = {"run", spec, deadline, resumes, redis.call("HGET", outputs, ":input")}
for dependency in string.gmatch(dependencies or "", "%S+") do
    table.insert(given, redis.call("HGET", outputs, dependency))
end
return given
