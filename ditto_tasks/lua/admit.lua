-- Before a call is published: refuse it if its owner was erased or its shard is full, else note whose it is, and
-- push its message. In one step, so that an erasure either comes first or finds the notes.
-- KEYS[1] queue, [2] the task's tenant, then the owners' tombstones, then a list for each note
-- ARGV[1] depth at which a shard is full, or '' for another queue, [2] tenant or '', [3] ms for that,
--      [4] message, or '' to push nothing, [5] number of tombstones, then ms and name of each note
-- returns {'admitted' | 'erased' | 'full', messages in the queue}
local tombstones = tonumber(ARGV[5])
for i = 3, 2 + tombstones do
    if redis.call("EXISTS", KEYS[i]) == 1 then
        return { "erased", 0 }
    end
end
local depth = redis.call("LLEN", KEYS[1])
if ARGV[1] ~= "" and depth >= tonumber(ARGV[1]) then
    return { "full", depth }
end
if ARGV[2] ~= "" then
    redis.call("SET", KEYS[2], ARGV[2], "PX", ARGV[3])
end
local place = 6
for i = 3 + tombstones, #KEYS do
    note(KEYS[i], ARGV[place], ARGV[place + 1])
    place = place + 2
end
if ARGV[4] ~= "" then
    depth = redis.call("LPUSH", KEYS[1], ARGV[4])
end
return { "admitted", depth }
