-- Records that an operation was refused; the state is only read.
-- KEYS[1] state, KEYS[2] operation log.  ARGV: 1 field, 2 input hash, 3 epoch, 4 scope, 5 code.
-- Returns {status, outcome, version} as commit.lua: "known", "fenced" or "written".
local log = redis.call('HMGET', KEYS[2], ARGV[1], 'epoch', 'count')
local version = version_of(KEYS[1]) or ''
if outcome_of(log[1]) then return {'known', log[1], version} end
if log[2] and tonumber(ARGV[3]) < tonumber(log[2]) then return {'fenced', log[2], version} end
remember(KEYS[2], ARGV[1], ' ' .. ARGV[2] .. ' c ' .. ARGV[5], ARGV[3], log[2], log[3])
return {'written', '', version}
