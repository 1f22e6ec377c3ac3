-- Record a new run of a loop and list it under its shard; an existing record stays as it is.
-- KEYS[1] record, [2] list of the shard, [3] tombstone of the run
-- ARGV[1] run, [2] ms until its deadline, [3] ms to keep it after that, then fields and values of the record
-- returns the digest of what the run is asked: of another request, if it was there; or nothing if it was erased
if redis.call("EXISTS", KEYS[3]) == 1 then
    return nil
end
if redis.call("EXISTS", KEYS[1]) == 1 then
    return redis.call("HGET", KEYS[1], "digest")
end
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local deadline = string.format("%d", now + ARGV[2])
redis.call("HSET", KEYS[1], "state", "running", "opened", string.format("%d", now), "deadline", deadline,
    "iteration", 0, "resumes", 0, "list", KEYS[2])
for at = 4, #ARGV, 2 do
    redis.call("HSET", KEYS[1], ARGV[at], ARGV[at + 1])
end
redis.call("PEXPIRE", KEYS[1], ARGV[2] + ARGV[3])
redis.call("ZADD", KEYS[2], deadline, ARGV[1])
redis.call("PEXPIRE", KEYS[2], math.max(redis.call("PTTL", KEYS[2]), ARGV[2] + ARGV[3]))
return redis.call("HGET", KEYS[1], "digest")
