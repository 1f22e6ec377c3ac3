-- Let a loop that failed or was cancelled go on with the iteration at which it ended.
-- KEYS[1] record, [2] events; the list of its shard is the one that the record names
-- ARGV[1] run, [2] ms until its new deadline, [3] ms to keep it after that, [4] event, [5] ms to keep events
-- returns the state that it was in, or nothing without a record
local state, list = unpack(redis.call("HMGET", KEYS[1], "state", "list"))
if state ~= "failed" and state ~= "cancelled" then
    return state
end
local time = redis.call("TIME")
local deadline = string.format("%d", time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[2])
redis.call("HSET", KEYS[1], "state", "running", "deadline", deadline)
redis.call("HDEL", KEYS[1], "error", "ended")
redis.call("PEXPIRE", KEYS[1], ARGV[2] + ARGV[3])
redis.call("ZADD", list, deadline, ARGV[1])
redis.call("PEXPIRE", list, math.max(redis.call("PTTL", list), ARGV[2] + ARGV[3]))
redis.call("XADD", KEYS[2], "MAXLEN", "~", 1000, "*", "type", "pipeline", "data", ARGV[4])
redis.call("PEXPIRE", KEYS[2], ARGV[5])
return state
