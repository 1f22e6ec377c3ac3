-- Record a new run of a graph and list it under its shard; an existing record stays as it is.
-- KEYS as in graph_shared, [6] list of the shard, [7] tombstone of the run
-- ARGV[1] run, [2] ms until its deadline, [3] ms to keep it after that, [4] input as JSON,
--   [5] number of nodes, then their ids in order, then fields and values of the record
-- returns the digest of what the run is asked: of another request, if it was there; or nothing if it was erased
if redis.call("EXISTS", KEYS[7]) == 1 then
    return nil
end
if state then
    return redis.call("HGET", record, "digest")
end
deadline = string.format("%d", clock + ARGV[2])
redis.call("HSET", record, "state", "running", "opened", now, "deadline", deadline, "list", KEYS[6])
local count = tonumber(ARGV[5])
for at = 6 + count, #ARGV, 2 do
    redis.call("HSET", record, ARGV[at], ARGV[at + 1])
end
for rank = 1, count do
    local node = ARGV[5 + rank]
    redis.call("HSET", record, "rank:" .. node, rank, "attempt:" .. node, 1)
    if redis.call("HEXISTS", record, "left:" .. node) == 0 then
        redis.call("ZADD", ready, rank, node)
    end
end
redis.call("HSET", outputs, ":input", ARGV[4])
redis.call("PEXPIRE", record, ARGV[2] + ARGV[3])
keep(outputs)
keep(ready)
redis.call("ZADD", KEYS[6], deadline, ARGV[1])
if redis.call("PTTL", KEYS[6]) < ARGV[2] + ARGV[3] then
    redis.call("PEXPIRE", KEYS[6], ARGV[2] + ARGV[3])
end
return redis.call("HGET", record, "digest")
