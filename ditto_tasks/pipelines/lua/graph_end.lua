-- End a run that has not ended yet, nor was resumed oftener than when it was looked at; nodes at work settle all the same.
-- KEYS as in graph_shared
-- ARGV[1] state, [2] error as JSON, [3] event as JSON, [4] ms to keep events, [5] how often it was
--   resumed then, or "" for any
-- returns 1 if this ended it: whoever ends a run tells of it
if state ~= "running" or (ARGV[5] ~= "" and tonumber(resumes) > tonumber(ARGV[5])) then
    return 0
end
redis.call("HSET", record, "state", ARGV[1], "error", ARGV[2], "ended", now)
event("pipeline", ARGV[3], ARGV[4])
return 1
