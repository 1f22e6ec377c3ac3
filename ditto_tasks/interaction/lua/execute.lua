-- From claimed to executing: after this the effect may have happened. Harmless to repeat.
-- KEYS[1] effect, KEYS[2] list of its root (unused)
-- ARGV[1] holder, [2] lease in ms
-- returns 1, or 0 when the claim is no longer this holder's
local found = redis.call("HMGET", KEYS[1], "holder", "state")
if found[1] ~= ARGV[1] or (found[2] ~= "claimed" and found[2] ~= "executing") then
    return 0
end
local time = redis.call("TIME")
local until_ms = string.format("%d", time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[2])
redis.call("HSET", KEYS[1], "state", "executing", "until", until_ms)
return 1
