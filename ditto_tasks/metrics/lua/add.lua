-- Add what one process has counted to the deployment's counts.
-- KEYS[1] hash: a count's name with its labels -> number
-- ARGV[1] seconds that the counts live from now on, then name and number in turn
-- returns 1
for i = 2, #ARGV, 2 do
    redis.call("HINCRBY", KEYS[1], ARGV[i], ARGV[i + 1])
end
redis.call("EXPIRE", KEYS[1], ARGV[1])
return 1
