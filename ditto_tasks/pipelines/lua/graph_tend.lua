-- Hand out what may start now, and again what is silent in flight.
-- KEYS as in graph_shared
-- ARGV[1] ms of silence after which a node counts as lost, doubled with each time it was handed out again
-- returns {state, deadline, headers, {{node, attempt, specification} …}, now}, or nothing without a record
if not state then
    return nil
end
local messages = {}
if state == "running" and clock < tonumber(deadline) then
    for _, node in ipairs(redis.call("ZRANGEBYSCORE", flight, "-inf", clock - ARGV[1])) do
        local resent = tonumber(redis.call("HGET", record, "resent:" .. node) or "0")
        if clock - redis.call("ZSCORE", flight, node) >= ARGV[1] * 2 ^ math.min(resent, 6) then
            redis.call("ZADD", flight, now, node)
            redis.call("HINCRBY", record, "resent:" .. node, 1)
            add_message(messages, node)
        end
    end
end
local handed = hand_out(messages)
table.insert(handed, now)
return handed
