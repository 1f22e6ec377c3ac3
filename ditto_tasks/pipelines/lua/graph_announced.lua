-- Take a run off the list that its record names, unless it was resumed since.
-- KEYS as in graph_shared
-- ARGV[1] run
if state and state ~= "running" then
    redis.call("ZREM", redis.call("HGET", record, "list"), ARGV[1])
end
return 0
