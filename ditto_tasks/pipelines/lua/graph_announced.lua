-- Take a run off the list that its record names, unless it was resumed since the end that was told.
-- KEYS as in graph_shared
-- ARGV[1] run, [2] how often it had been resumed then
if state and state ~= "running" and resumes == ARGV[2] then
    redis.call("ZREM", redis.call("HGET", record, "list"), ARGV[1])
end
return 0
