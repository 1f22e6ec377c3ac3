-- Give a claim back under which nothing was executed. Harmless to repeat.
-- KEYS[1] effect, KEYS[2] list of its root (unused)
-- ARGV[1] holder
-- returns 1, or 0 when the claim is not this holder's or its effect was begun
local found = redis.call("HMGET", KEYS[1], "holder", "state", "doubt")
if found[1] ~= ARGV[1] or found[2] ~= "claimed" then
    return 0
end
if found[3] then
    redis.call("HSET", KEYS[1], "state", "unknown") -- what an earlier executor did is still not known
else
    redis.call("DEL", KEYS[1])
end
return 1
