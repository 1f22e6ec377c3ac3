-- Record a new pipeline and list it under its shard; an existing record stays as it is.
-- KEYS[1] record, KEYS[2] list of the shard, KEYS[3] tombstone of the pipeline
-- ARGV[1] pipeline id, [2] request as JSON, [3] last step, [4] ms until its deadline, [5] ms to keep it after that,
--   [6] flow, or "" for the answering pipeline, [7] number of steps, or "" where that is not known
-- returns the deadline in ms since the epoch, or nothing if the tombstone stands
if redis.call("EXISTS", KEYS[3]) == 1 then
    return nil
end
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local deadline = now + tonumber(ARGV[4])
local keep = tonumber(ARGV[4]) + tonumber(ARGV[5])
if redis.call("EXISTS", KEYS[1]) == 1 then
    return redis.call("HGET", KEYS[1], "deadline")
end
redis.call("HSET", KEYS[1], "request", ARGV[2], "last", ARGV[3], "state", "running",
    "deadline", string.format("%d", deadline), "active", string.format("%d", now), "resent", "0",
    "list", KEYS[2], "opened", string.format("%d", now), "flow", ARGV[6], "total", ARGV[7])
redis.call("PEXPIRE", KEYS[1], keep)
redis.call("ZADD", KEYS[2], deadline, ARGV[1])
if redis.call("PTTL", KEYS[2]) < keep then
    redis.call("PEXPIRE", KEYS[2], keep)
end
return string.format("%d", deadline)
