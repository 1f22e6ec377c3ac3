-- Write rows, and word that the call which made them is answered. The first final row of a scope stands; none is
-- written for a scope whose owner was erased.
-- KEYS[1] rows, [2] news, then the tombstones of each scope
-- ARGV[1] ms that both are kept, [2] news, then of each scope its hash, row, '1' if the row is final, and number of
--      tombstones
-- returns the number of rows that were refused
local tombstone, refused = 3, 0
for place = 3, #ARGV, 4 do
    local scope, row, final, owners = ARGV[place], ARGV[place + 1], ARGV[place + 2], tonumber(ARGV[place + 3])
    local erased = false
    for _ = 1, owners do
        erased = redis.call("EXISTS", KEYS[tombstone]) == 1 or erased
        tombstone = tombstone + 1
    end
    if erased then
        redis.call("HDEL", KEYS[1], "plan:" .. scope, "over:" .. scope)
        refused = refused + 1
    elseif final == "1" then
        redis.call("HSETNX", KEYS[1], scope, row)
        redis.call("HDEL", KEYS[1], "plan:" .. scope, "over:" .. scope)
    else
        redis.call("HSET", KEYS[1], "over:" .. scope, row)
    end
end
redis.call("RPUSH", KEYS[2], ARGV[2])
redis.call("PEXPIRE", KEYS[1], ARGV[1])
redis.call("PEXPIRE", KEYS[2], ARGV[1])
return refused
