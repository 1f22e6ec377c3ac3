-- Store what a task came to and tell whoever waits, unless it is whose it was that was erased.
-- KEYS[1] result, which is the channel too, KEYS[2..] tombstones of whose task it is
-- ARGV[1] result, [2] seconds to keep it, or "" for ever, [3] how the result of a success begins
-- returns 1, 0 if a success stands already, or -1 if one of the tombstones does
if redis.call("EXISTS", unpack(KEYS, 2)) > 0 then
    return -1
end
if redis.call("GETRANGE", KEYS[1], 0, #ARGV[3] - 1) == ARGV[3] then
    return 0
end
if ARGV[2] == "" then
    redis.call("SET", KEYS[1], ARGV[1])
else
    redis.call("SET", KEYS[1], ARGV[1], "EX", ARGV[2])
end
redis.call("PUBLISH", KEYS[1], ARGV[1])
return 1
