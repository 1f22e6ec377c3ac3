-- Claim an effect, or learn what became of it (with noting.lua before it).
-- Repeating it with the same holder is harmless.
-- KEYS[1] effect, KEYS[2] list of its root: what belongs to it -> when that has expired
-- ARGV[1] hash of name and arguments, [2] holder, [3] lease in ms, [4] ms to keep the record,
-- ARGV[5] "repeat" to run an effect of unknown outcome again, else ""; its record keeps that it is in doubt
-- returns {state} or {"settled", result} or {"busy", ms until the lease lapses}
local time = redis.call("TIME")
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function claim()
    local until_ms = string.format("%d", now + ARGV[3])
    redis.call("HSET", KEYS[1], "hash", ARGV[1], "holder", ARGV[2], "state", "claimed", "until", until_ms)
    redis.call("PEXPIRE", KEYS[1], ARGV[4])
    note(KEYS[2], ARGV[4], "effect:" .. KEYS[1])
    return {"claimed"}
end
local found = redis.call("HMGET", KEYS[1], "hash", "holder", "state", "until", "result", "doubt")
local hash, holder, state = found[1], found[2], found[3]
if not hash then
    return claim()
elseif hash ~= ARGV[1] then
    return {"conflict"}
elseif state == "settled" then
    return {"settled", found[5]}
elseif state == "claimed" and holder == ARGV[2] then
    return claim()
elseif state ~= "unknown" and tonumber(found[4]) > now then
    return {"busy", string.format("%d", tonumber(found[4]) - now)}
elseif state == "claimed" and not found[6] then
    return claim() -- nothing was executed under the lapsed lease
elseif ARGV[5] == "repeat" then
    redis.call("HSET", KEYS[1], "doubt", "1")
    return claim()
end
redis.call("HSET", KEYS[1], "state", "unknown")
return {"unknown"}
