-- A run was resumed: the end before that stands no more, and is not stored any more.
-- KEYS[1] result, [2] how often the run was resumed
-- ARGV[1] how often it was resumed by now, [2] seconds to keep that, or "" for ever
-- returns 1, or 0 if that is known, and what stands may be a newer end
if tonumber(redis.call("GET", KEYS[2]) or "0") >= tonumber(ARGV[1]) then
    return 0
end
redis.call("SET", KEYS[2], ARGV[1], unpack(ARGV[2] == "" and {} or {"EX", ARGV[2]}))
redis.call("DEL", KEYS[1])
return 1
