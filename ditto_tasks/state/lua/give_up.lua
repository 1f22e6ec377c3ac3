-- Asks for the outcome of an attempt whose reply was lost; if it has none, makes sure that it never gets one:
-- a request that still waits in some buffer must not be applied after its sender was told that it failed.
-- KEYS[1] state, KEYS[2] operation log.
-- ARGV: 1 field, 2 input hash, 3 unused, 4 operations kept, 5 log ttl ms, 6 version that the attempt was to write.
-- Returns {status, outcome, version} as commit.lua: "known" or "unknown".
local known = redis.call('HGET', KEYS[2], ARGV[1])
local version = version_of(KEYS[1]) or ''
if outcome_of(known) then return {'known', known, version} end
local versions = known and string.match(known, '^%S+ x (%S+)$')
local text = ARGV[2] .. ' x ' .. (versions and versions .. ',' or '') .. ARGV[6]
remember(KEYS[2], ARGV[1], known, text, redis.call('HGET', KEYS[2], 'epoch') or 0, ARGV[4], ARGV[5])
return {'unknown', '', version}
