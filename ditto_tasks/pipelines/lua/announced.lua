-- Take a pipeline off the list that its record names.
-- KEYS[1] record
-- ARGV[1] pipeline id
local list = redis.call("HGET", KEYS[1], "list")
if list then
    redis.call("ZREM", list, ARGV[1])
end
return 0
