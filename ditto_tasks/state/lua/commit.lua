-- Writes a record, the shard's epoch and the outcome of one operation, in one step and once.
-- KEYS[1] state, KEYS[2] operation log.
-- ARGV: 1 field, 2 input hash, 3 epoch, 4 operations kept, 5 log ttl ms,
--       6 expected version ("" = absent), 7 new version, 8 new record, 9 state ttl ms, 10 SHA-1 or "".
-- Returns {status, outcome, version}; version = the one stored before, "" if absent or foreign; status =
--   "known" (outcome = its log entry), "fenced", "foreign", "conflict", "void" (given up meanwhile), "written".
-- The order is the protocol: a repeated operation learns its outcome whoever asks and whatever changed since.
local known = redis.call('HGET', KEYS[2], ARGV[1])
if outcome_of(known) then return {'known', known, version_of(KEYS[1]) or ''} end
if known and string.find(known, ARGV[7], 1, true) then return {'void', '', ''} end
local epoch = redis.call('HGET', KEYS[2], 'epoch')
if epoch and tonumber(ARGV[3]) < tonumber(epoch) then return {'fenced', '', ''} end
local verdict, version = matches(KEYS[1], ARGV[6], ARGV[10])
if verdict == 'foreign' then return {'foreign', '', ''} end
if verdict == 'no' then return {'conflict', '', version} end
redis.call('SET', KEYS[1], ARGV[8], 'PX', ARGV[9])
remember(KEYS[2], ARGV[1], known, ARGV[2] .. ' v ' .. ARGV[7], ARGV[3], ARGV[4], ARGV[5])
return {'written', '', version}
