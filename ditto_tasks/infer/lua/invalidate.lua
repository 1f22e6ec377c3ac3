-- Remove cache entries, either one or all of an index.
-- KEYS[1] entry or index
-- ARGV[1] "entry" or "index"
-- returns how many live entries went
local entries = {KEYS[1]}
if ARGV[1] == "index" then
    entries = redis.call("ZRANGE", KEYS[1], 0, -1)
end
local removed = 0
for _, entry in ipairs(entries) do
    for index in string.gmatch(redis.call("HGET", entry, "indexes") or "", "[^\n]+") do
        redis.call("ZREM", index, entry)
    end
    removed = removed + redis.call("DEL", entry)
end
return removed
