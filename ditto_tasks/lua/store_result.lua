-- Store what a task came to and tell whoever waits, unless it is whose it was that was erased.
-- KEYS[1] result, which is the channel too, [2] how often the run was resumed, KEYS[3..] tombstones of whose task it is
-- ARGV[1] result, [2] seconds to keep it, or "" for ever, [3] how the result of a success begins, [4] of the end of a
--   run: how often that had been resumed, else ""
-- returns 1, 0 if a success stands already, -1 if one of the tombstones does, or -2 if the run was resumed since
if redis.call("EXISTS", unpack(KEYS, 3)) > 0 then
    return -1
end
if redis.call("GETRANGE", KEYS[1], 0, #ARGV[3] - 1) == ARGV[3] then
    return 0
end
local expires = ARGV[2] == "" and {} or {"EX", ARGV[2]}
if ARGV[4] ~= "" then
    local newest = tonumber(redis.call("GET", KEYS[2]) or "0")
    if newest > tonumber(ARGV[4]) then
        return -2
    elseif newest < tonumber(ARGV[4]) then -- whoever resumes it has not said so yet, and is not to take this for an older end
        redis.call("SET", KEYS[2], ARGV[4], unpack(expires))
    end
end
redis.call("SET", KEYS[1], ARGV[1], unpack(expires))
redis.call("PUBLISH", KEYS[1], ARGV[1])
return 1
