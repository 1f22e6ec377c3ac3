-- Change the number of shards of a deployment in which nothing waits or runs.
-- KEYS shard count, then every list that must be empty
-- ARGV new count
-- returns 'done', or the name of a list that is not empty
for place = 2, #KEYS do
    if redis.call('EXISTS', KEYS[place]) == 1 then
        return KEYS[place]
    end
end
redis.call('SET', KEYS[1], ARGV[1])
return 'done'
