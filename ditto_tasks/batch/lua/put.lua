-- Write rows, and word that the call which made them is answered. The first final row of a scope stands; of a
-- scope whose owner was erased it is only written that it was.
-- KEYS[1] rows, [2] news, then the tombstones of each scope
-- ARGV[1] ms that both are kept, [2] news, then of each scope its hash, row, '1' if the row is final, number of
--      tombstones, and final row if there is one of these
local tombstone = 3
for place = 3, #ARGV, 5 do
    local scope, row, final, owners = ARGV[place], ARGV[place + 1], ARGV[place + 2], tonumber(ARGV[place + 3])
    local erased = false
    for _ = 1, owners do
        erased = redis.call("EXISTS", KEYS[tombstone]) == 1 or erased
        tombstone = tombstone + 1
    end
    if erased then
        row, final = ARGV[place + 4], "1"
    end
    if final == "1" then
        redis.call("HSETNX", KEYS[1], scope, row)
        redis.call("HDEL", KEYS[1], "plan:" .. scope, "over:" .. scope, "begun:" .. scope)
    else
        redis.call("HDEL", KEYS[1], "begun:" .. scope)
        if redis.call("HEXISTS", KEYS[1], scope) == 0 then
            redis.call("HSET", KEYS[1], "over:" .. scope, row)
        end
    end
end
redis.call("RPUSH", KEYS[2], ARGV[2])
redis.call("PEXPIRE", KEYS[1], ARGV[1])
redis.call("PEXPIRE", KEYS[2], ARGV[1])
