-- End a run that is as it was looked at: it has not ended, nor gone on to another iteration, nor was it resumed since.
-- KEYS[1] record, KEYS[2] events
-- ARGV[1] state, [2] error as JSON, [3] event as JSON, [4] ms to keep events, [5] iteration that was
--   seen, [6] how often it had been resumed then
-- returns 1 if this ended it: whoever ends a run tells of it
local state, iteration, resumes = unpack(redis.call("HMGET", KEYS[1], "state", "iteration", "resumes"))
if state ~= "running" or iteration ~= ARGV[5] or resumes ~= ARGV[6] then
    return 0
end
local time = redis.call("TIME")
local now = string.format("%d", time[1] * 1000 + math.floor(time[2] / 1000))
redis.call("HSET", KEYS[1], "state", ARGV[1], "error", ARGV[2], "ended", now)
redis.call("XADD", KEYS[2], "MAXLEN", "~", 1000, "*", "type", "pipeline", "data", ARGV[3])
redis.call("PEXPIRE", KEYS[2], ARGV[4])
return 1
