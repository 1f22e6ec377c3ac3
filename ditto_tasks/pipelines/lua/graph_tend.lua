-- Hand out what may start now, and again what is silent in flight.
-- KEYS as in graph_shared
-- ARGV[1] ms of silence after which a node counts as lost, doubled with each time it was handed out again
-- ARGV[2] deaths of workers at one node after which it is given up
-- returns {state, deadline, resumes, headers, {{node, attempt, specification} …}, now, {{node, attempt} …} given up}, or
--   nothing without a record
if not state then
    return nil
end
local messages, given_up = {}, {}
if state == "running" and clock < tonumber(deadline) then
    for _, node in ipairs(redis.call("ZRANGEBYSCORE", flight, "-inf", clock - ARGV[1])) do
        local resent = tonumber(redis.call("HGET", record, "resent:" .. node) or "0")
        if clock - redis.call("ZSCORE", flight, node) >= ARGV[1] * 2 ^ math.min(resent, 6) then
            redis.call("ZADD", flight, now, node)
            redis.call("HINCRBY", record, "resent:" .. node, 1)
            local died = resent == 0 and redis.call("HEXISTS", record, "began:" .. node) -- at work, and then silent
            if redis.call("HINCRBY", record, "deaths:" .. node, died or 0) < tonumber(ARGV[2]) then
                add_message(messages, node)
            else
                table.insert(given_up, {node, redis.call("HGET", record, "attempt:" .. node)})
            end
        end
    end
end
local handed = hand_out(messages)
table.insert(handed, now)
table.insert(handed, given_up)
return handed
