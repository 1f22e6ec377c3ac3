-- What the scripts of graph runs begin with; it changes nothing by itself.
-- KEYS[1] record, [2] outputs, [3] ready nodes, [4] nodes in flight, [5] events
local record, outputs, ready, flight, events = unpack(KEYS)
local time = redis.call("TIME")
local clock = time[1] * 1000 + math.floor(time[2] / 1000)
local now = string.format("%d", clock)
local state, deadline, limit, resumes = unpack(redis.call("HMGET", record, "state", "deadline", "limit", "resumes"))
local function keep(key) -- as long as the record
    redis.call("PEXPIRE", key, redis.call("PTTL", record))
end
local function event(kind, data, ttl)
    redis.call("XADD", events, "MAXLEN", "~", 10000, "*", "type", kind, "data", data)
    redis.call("PEXPIRE", events, ttl)
end
local function to_ready(node) -- it is handed out (again) in its turn
    redis.call("ZREM", flight, node)
    redis.call("HDEL", record, "sent:" .. node, "began:" .. node)
    redis.call("ZADD", ready, redis.call("HGET", record, "rank:" .. node), node)
    keep(ready)
end
local function stopped_with_run(begun_after) -- it ended, its time is up, or it was resumed since the node began
    return state ~= "running" or begun_after ~= resumes or clock >= tonumber(deadline)
end
local function end_if_asked(stop, cancelled, data, ttl) -- whoever cancels asks first, and records the end then
    if state == "running" and redis.call("EXISTS", stop) == 1 then
        state = "cancelled"
        redis.call("HSET", record, "state", state, "error", cancelled, "ended", now)
        event("pipeline", data, ttl)
    end
end
local function add_message(messages, node)
    local found = redis.call("HMGET", record, "attempt:" .. node, "spec:" .. node)
    redis.call("HINCRBY", record, "times:" .. node, 1)
    table.insert(messages, {node, found[1], found[2]})
end
local function hand_out(messages) -- the first declared first, as many as may be in flight
    local open = state == "running" and clock < tonumber(deadline)
    while open and redis.call("ZCARD", flight) < tonumber(limit) do
        local node = redis.call("ZPOPMIN", ready)[1]
        if not node then
            break
        end
        redis.call("ZADD", flight, now, node)
        redis.call("HSET", record, "sent:" .. node, now)
        add_message(messages, node)
    end
    keep(flight)
    return {state, deadline, resumes, redis.call("HGET", record, "headers"), messages}
end
