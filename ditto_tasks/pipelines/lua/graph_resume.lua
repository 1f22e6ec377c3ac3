-- Let a run go on from what was settled, under another deadline; nodes that raised are to run again. One that has not
--   ended goes on, too: its loop has, and was resumed.
-- KEYS as in graph_shared; the list of its shard is the one that the record names
-- ARGV[1] run, [2] ms until its new deadline, [3] ms to keep it after that, [4] how often it is resumed with
--   this, [5] event as JSON, [6] ms to keep events, then ids of all nodes
-- returns 1, or 0 if it is done, was resumed so often already, or has no record
if not state or state == "done" or tonumber(resumes) >= tonumber(ARGV[4]) then
    return 0
end
local until_ms = string.format("%d", clock + ARGV[2])
local list = redis.call("HGET", record, "list")
redis.call("HSET", record, "state", "running", "deadline", until_ms, "resumes", ARGV[4])
redis.call("HDEL", record, "error", "ended", "failures")
for _, key in ipairs({record, outputs, flight}) do
    redis.call("PEXPIRE", key, ARGV[2] + ARGV[3])
end
for at = 7, #ARGV do
    if redis.call("HDEL", record, "raised:" .. ARGV[at]) == 1 then
        redis.call("HDEL", record, "ended:" .. ARGV[at], "deaths:" .. ARGV[at])
        to_ready(ARGV[at])
    end
end
keep(ready)
redis.call("ZADD", list, until_ms, ARGV[1])
redis.call("PEXPIRE", list, math.max(redis.call("PTTL", list), ARGV[2] + ARGV[3]))
event("pipeline", ARGV[5], ARGV[6])
if redis.call("HGET", record, "todo") == "0" then -- the last node settled after the run had ended
    redis.call("HSET", record, "state", "done", "ended", now)
end
return 1
