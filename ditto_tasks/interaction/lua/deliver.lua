-- Add an output to the stream of outputs, unless the canvas that it is part of was erased.
-- KEYS[1] stream, KEYS[2] tombstone of the canvas
-- ARGV[1] delivery id, [2] output as JSON, [3] outputs to keep, [4] ms to keep them after the last one
-- returns 1, or 0 if the tombstone stands
if redis.call("EXISTS", KEYS[2]) == 1 then
    return 0
end
redis.call("XADD", KEYS[1], "MAXLEN", "~", ARGV[3], "*", "deliveryId", ARGV[1], "data", ARGV[2])
redis.call("PEXPIRE", KEYS[1], ARGV[4])
return 1
