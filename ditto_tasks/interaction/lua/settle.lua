-- Record what the effect gave. One that was given up as unknown is recorded as settled late.
-- KEYS[1] effect, KEYS[2] list of its root
-- ARGV[1] holder, [2] result, [3] ms to keep the record
-- returns "settled", "late", or "lost" when the record is another holder's or gone
local found = redis.call("HMGET", KEYS[1], "holder", "state")
if found[1] ~= ARGV[1] or found[2] == "claimed" then
    return "lost"
end
if found[2] == "settled" then
    return "settled"
end
redis.call("HSET", KEYS[1], "state", "settled", "result", ARGV[2])
redis.call("PEXPIRE", KEYS[1], ARGV[3])
if redis.call("PTTL", KEYS[2]) < tonumber(ARGV[3]) then
    redis.call("PEXPIRE", KEYS[2], ARGV[3])
end
if found[2] == "unknown" then
    redis.call("HSET", KEYS[1], "late", "1")
    return "late"
end
return "settled"
