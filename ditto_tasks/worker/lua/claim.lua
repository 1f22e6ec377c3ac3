-- Take a shard's lease or renew it. Idempotent: a caller that lost the reply asks again and reads that it owns the shard.
-- KEYS lease, shard, queue, inflight
-- ARGV owner, lease in ms
-- returns {epoch, owner}: the caller owns the shard if `owner` is its own id
local holder = redis.call('GET', KEYS[1])
local known = redis.call('HMGET', KEYS[2], 'epoch', 'owner', 'started')
if holder == ARGV[1] and known[1] then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    return {known[1], holder}
elseif holder and holder ~= ARGV[1] then
    return {known[1] or '0', holder}
end

-- The clock keeps epochs growing when a flushed or failed-over broker has forgotten the last one.
local now = redis.call('TIME')
local epoch = math.max((tonumber(known[1]) or 0) + 1, now[1] * 1000 + math.floor(now[2] / 1000))
-- An owner that takes its own lapsed lease again did not die with the message.
if known[3] and known[2] ~= ARGV[1] then
    redis.call('HINCRBY', KEYS[2], 'deaths', 1)
end
while redis.call('LMOVE', KEYS[4], KEYS[3], 'LEFT', 'RIGHT') do
    redis.call('HSET', KEYS[2], 'tried', 1)
end
redis.call('HDEL', KEYS[2], 'started')
if known[2] ~= ARGV[1] then
    redis.call('HINCRBY', KEYS[2], 'moves', 1)
end
local text = string.format('%.0f', epoch)
redis.call('HSET', KEYS[2], 'epoch', text, 'owner', ARGV[1])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {text, ARGV[1]}
