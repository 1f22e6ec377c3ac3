-- Writes a record if the version stored is the expected one.
-- KEYS[1] state.  ARGV: expected version ("" = absent), new record, ttl ms [, SHA-1 of the foreign bytes].
-- Returns 1 (written), 0 (conflict) or "FOREIGN" (see matches.lua).
local verdict = matches(KEYS[1], ARGV[1], ARGV[4] or '')
if verdict == 'foreign' then return 'FOREIGN' end
if verdict == 'no' then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
