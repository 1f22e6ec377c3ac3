-- Asks for the outcome of an attempt whose reply was lost; if it has none, makes sure that it never gets one:
-- a request that still waits in some buffer must not be applied after its sender was told that it failed.
-- KEYS[1] state, KEYS[2] operation log.
-- ARGV: 1 field, 2 input hash, 3 unused, 4 scope, 5 version that the attempt was to write.
-- Returns {status, outcome, version} as commit.lua: "known" or "unknown".
local log = redis.call('HMGET', KEYS[2], ARGV[1], 'epoch', 'count')
local known, version = log[1], version_of(KEYS[1]) or ''
if outcome_of(known) then return {'known', known, version} end
local versions = known and string.match(known, ' x (%S+)$')
local text = ' ' .. ARGV[2] .. ' x ' .. (versions and versions .. ',' or '') .. ARGV[5]
remember(KEYS[2], ARGV[1], text, log[2] or '0', log[2], log[3])
return {'unknown', '', version}
