-- Let a loop that failed or was cancelled go on with the iteration at which it ended.
-- KEYS[1] record, [2] events; the list of its shard is the one that the record names
-- ARGV[1] run, [2] ms until its new deadline, [3] ms to keep it after that, [4] how often it is resumed with
--   this, [5] event, [6] ms to keep events
-- returns 1, or 0 if it has not ended so, was resumed so often already, or has no record
local state, resumes, list = unpack(redis.call("HMGET", KEYS[1], "state", "resumes", "list"))
if (state ~= "failed" and state ~= "cancelled") or tonumber(resumes) >= tonumber(ARGV[4]) then
    return 0
end
local time = redis.call("TIME")
local deadline = string.format("%d", time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[2])
redis.call("HSET", KEYS[1], "state", "running", "deadline", deadline, "resumes", ARGV[4])
redis.call("HDEL", KEYS[1], "error", "ended")
redis.call("PEXPIRE", KEYS[1], ARGV[2] + ARGV[3])
redis.call("ZADD", list, deadline, ARGV[1])
redis.call("PEXPIRE", list, math.max(redis.call("PTTL", list), ARGV[2] + ARGV[3]))
redis.call("XADD", KEYS[2], "MAXLEN", "~", 1000, "*", "type", "pipeline", "data", ARGV[5])
redis.call("PEXPIRE", KEYS[2], ARGV[6])
return 1
