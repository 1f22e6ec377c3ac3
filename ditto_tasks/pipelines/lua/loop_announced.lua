-- Take a run off the list that its record names, unless it was resumed since.
-- KEYS[1] record
-- ARGV[1] run
local state, list = unpack(redis.call("HMGET", KEYS[1], "state", "list"))
if state and state ~= "running" then
    redis.call("ZREM", list, ARGV[1])
end
return 0
