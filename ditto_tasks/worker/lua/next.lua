-- Settle the message in flight, if one is named, and take the next: one round trip a task.
-- Idempotent: `seq` names the taken message, so a repeated call after a lost reply settles nothing twice
-- and answers with the message that is in flight.
-- KEYS shard, queue, inflight
-- ARGV epoch, seq to settle ('' = none), 'ack' | 'back' (to the head again), '1' = take one,
--      '1' = a thread is free so that the message starts at once, '1' = a suspect may run,
--      deaths that make a suspect, deaths that bury
-- returns {'fenced'}, {'empty'}, {'suspect'} (it has to wait) or {'message', bytes, seq, deaths, tried before}
local known = redis.call('HMGET', KEYS[1], 'epoch', 'seq', 'deaths', 'tried')
if known[1] ~= ARGV[1] then
    return {'fenced'}
end
local deaths, tried = tonumber(known[3]) or 0, known[4] or '0'
if ARGV[2] ~= '' and ARGV[2] == known[2] then
    if ARGV[3] == 'back' then
        redis.call('LMOVE', KEYS[3], KEYS[2], 'LEFT', 'RIGHT')
        redis.call('HDEL', KEYS[1], 'started')
        redis.call('HSET', KEYS[1], 'tried', 1)
    elseif redis.call('DEL', KEYS[3]) == 1 then
        redis.call('HDEL', KEYS[1], 'started', 'deaths', 'tried')
        deaths, tried = 0, '0'
    end
end
if ARGV[4] ~= '1' then
    return {'empty'}
end

local seq = known[2]
local message = redis.call('LINDEX', KEYS[3], 0)
if not message then
    if deaths >= tonumber(ARGV[7]) and ARGV[6] ~= '1' then
        return {'suspect'}
    end
    message = redis.call('LMOVE', KEYS[2], KEYS[3], 'RIGHT', 'LEFT')
    if not message then
        return {'empty'}
    end
    seq = tostring(redis.call('HINCRBY', KEYS[1], 'seq', 1))
end
if ARGV[5] == '1' and deaths < tonumber(ARGV[8]) then
    local now = redis.call('TIME')
    redis.call('HSET', KEYS[1], 'started', string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000)))
end
return {'message', message, seq, deaths, tried}
