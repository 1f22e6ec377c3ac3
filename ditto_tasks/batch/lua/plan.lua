-- Before a commit: note whose rows name items, and write what each commit is about to do (after noting.lua).
-- What an earlier delivery meant to do, or did, stands and is returned.
-- KEYS[1] rows, then a list for each note
-- ARGV[1] ms that a row is kept, [2] number of scopes, then hash and plan of each ('' to look only), then the
--      name of each note
-- returns final row and plan of each scope, as they were, in turn
local scopes = tonumber(ARGV[2])
local found, wrote = {}, false
for place = 3, 2 + 2 * scopes, 2 do
    local scope, plan = ARGV[place], ARGV[place + 1]
    local known = redis.call("HMGET", KEYS[1], scope, "plan:" .. scope)
    if plan ~= "" and not known[1] and not known[2] then
        redis.call("HSET", KEYS[1], "plan:" .. scope, plan)
        wrote = true
    end
    table.insert(found, known[1])
    table.insert(found, known[2])
end
for place = 2, #KEYS do
    note(KEYS[place], ARGV[1], ARGV[1 + 2 * scopes + place])
end
if wrote then
    redis.call("PEXPIRE", KEYS[1], ARGV[1])
end
return found
