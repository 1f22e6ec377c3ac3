-- Replace a cache entry and its places in the indexes of its tags and its namespace.
-- KEYS[1] entry, KEYS[2..] indexes (sorted sets: entry -> when it expires, in ms)
-- ARGV[1] value, [2] ms to live, or "" for ever, or "0" to only remove, [3..] marks of whose erasure forbids it
-- returns 1, 0 if nothing stays, or -1 if one of the marks stands
for at = 3, #ARGV do
    if redis.call("EXISTS", ARGV[at]) == 1 then
        return -1
    end
end
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for index in string.gmatch(redis.call("HGET", KEYS[1], "indexes") or "", "[^\n]+") do
    redis.call("ZREM", index, KEYS[1])
end
redis.call("DEL", KEYS[1])
if ARGV[2] == "0" then
    return 0
end
redis.call("HSET", KEYS[1], "value", ARGV[1], "indexes", table.concat(KEYS, "\n", 2))
if ARGV[2] ~= "" then
    redis.call("PEXPIRE", KEYS[1], ARGV[2])
end
for at = 2, #KEYS do
    local left = redis.call("PTTL", KEYS[at])
    redis.call("ZREMRANGEBYSCORE", KEYS[at], "-inf", string.format("(%d", now))
    local fresh = redis.call("EXISTS", KEYS[at]) == 0
    if ARGV[2] == "" then
        redis.call("ZADD", KEYS[at], "+inf", KEYS[1])
        redis.call("PERSIST", KEYS[at])
    else
        redis.call("ZADD", KEYS[at], string.format("%d", now + ARGV[2]), KEYS[1])
        if fresh or (left >= 0 and left < tonumber(ARGV[2])) then
            redis.call("PEXPIRE", KEYS[at], ARGV[2])
        end
    end
end
return 1
