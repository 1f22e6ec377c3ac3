-- The outcome of an operation; writes nothing.
-- KEYS[1] state, KEYS[2] operation log.  ARGV: 1 field.
-- Returns {status, outcome, version} as commit.lua: "known" or "unknown".
local known = redis.call('HGET', KEYS[2], ARGV[1])
local version = version_of(KEYS[1]) or ''
if outcome_of(known) then return {'known', known, version} end
return {'unknown', '', version}
