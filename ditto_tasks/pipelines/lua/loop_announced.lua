-- Take a run off the list that its record names, unless it was resumed since the end that was told.
-- KEYS[1] record
-- ARGV[1] run, [2] how often it had been resumed then
local state, resumes, list = unpack(redis.call("HMGET", KEYS[1], "state", "resumes", "list"))
if state and state ~= "running" and resumes == ARGV[2] then
    redis.call("ZREM", list, ARGV[1])
end
return 0
