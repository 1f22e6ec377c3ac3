-- Records that an operation was refused; the state is only read.
-- KEYS[1] state, KEYS[2] operation log.
-- ARGV: 1 field, 2 input hash, 3 epoch, 4 operations kept, 5 log ttl ms, 6 code.
-- Returns {status, outcome, version} as commit.lua: "known", "fenced" or "written".
local known = redis.call('HGET', KEYS[2], ARGV[1])
local version = version_of(KEYS[1]) or ''
if outcome_of(known) then return {'known', known, version} end
local epoch = redis.call('HGET', KEYS[2], 'epoch')
if epoch and tonumber(ARGV[3]) < tonumber(epoch) then return {'fenced', '', version} end
remember(KEYS[2], ARGV[1], known, ARGV[2] .. ' c ' .. ARGV[6], ARGV[3], ARGV[4], ARGV[5])
return {'written', '', version}
