-- Writes a record, the shard's epoch and the outcome of one operation, in one step and once.
-- KEYS[1] state, KEYS[2] operation log [, tombstones, of which none may exist ...].
-- ARGV: 1 field, 2 input hash, 3 epoch, 4 scope, 5 expected version ("" = absent), 6 new record
--   [, 7 SHA-1 of foreign bytes].
-- Returns 1 (written) or {status, outcome, version}; version = the one stored, "" if absent or foreign; status =
--   "known" (outcome = its log entry), "fenced" (outcome = the epoch recorded), "foreign", "conflict" or
--   "void" (given up meanwhile) or "erased".
-- The order is the protocol: a repeated operation learns its outcome whoever asks and whatever changed since.
for i = 3, #KEYS do
  if redis.call('EXISTS', KEYS[i]) == 1 then return {'erased', '', ''} end
end
local log = redis.call('HMGET', KEYS[2], ARGV[1], 'epoch', 'count')
local known, written = log[1], string.sub(ARGV[6], 13, 48)
if outcome_of(known) then return {'known', known, version_of(KEYS[1]) or ''} end
if known and string.find(known, written, 1, true) then return {'void', '', ''} end
if log[2] and tonumber(ARGV[3]) < tonumber(log[2]) then return {'fenced', log[2], ''} end
local verdict, version = matches(KEYS[1], ARGV[5], ARGV[7] or '')
if verdict == 'foreign' then return {'foreign', '', ''} end
if verdict == 'no' then return {'conflict', '', version} end
redis.call('SET', KEYS[1], ARGV[6], unpack(EXPIRY))
remember(KEYS[2], ARGV[1], ' ' .. ARGV[2] .. ' v ' .. written, ARGV[3], log[2], log[3])
return 1
