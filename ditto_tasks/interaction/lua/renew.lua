-- Extend the lease of an effect that still runs.
-- KEYS[1] effect, KEYS[2] list of its root (unused)
-- ARGV[1] holder, [2] lease in ms
-- returns 1, or 0 when the lease is no longer this holder's
local found = redis.call("HMGET", KEYS[1], "holder", "state")
if found[1] ~= ARGV[1] or found[2] ~= "executing" then
    return 0
end
local time = redis.call("TIME")
redis.call("HSET", KEYS[1], "until", string.format("%d", time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[2]))
return 1
