-- Put a run on lists, and keep of each list only the newest; a run that is there keeps its place.
-- KEYS lists (sorted sets: "<kind>:<run>" -> when it was opened, in ms)
-- ARGV[1] "<kind>:<run>", [2] ms to keep it, [3] how many runs a list keeps
local time = redis.call("TIME")
local now = string.format("%d", time[1] * 1000 + math.floor(time[2] / 1000))
for _, list in ipairs(KEYS) do
    redis.call("ZADD", list, "NX", now, ARGV[1])
    redis.call("ZREMRANGEBYRANK", list, 0, -1 - ARGV[3])
    if redis.call("PTTL", list) < tonumber(ARGV[2]) then
        redis.call("PEXPIRE", list, ARGV[2])
    end
end
return 1
