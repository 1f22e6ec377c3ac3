-- After the result of one part of a chord was written: note the group, or delete it where it is erased.
-- (With noting.lua before it.)
-- KEYS[1] list of the canvas, KEYS[2] tombstone of the canvas, KEYS[3..] keys of the group
-- ARGV[1] ms that the parts are kept, [2] name of the group
-- returns 1, or 0 if the tombstone stands
if redis.call("EXISTS", KEYS[2]) == 1 then
    redis.call("DEL", unpack(KEYS, 3))
    return 0
end
note(KEYS[1], ARGV[1], ARGV[2])
return 1
