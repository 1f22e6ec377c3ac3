-- Note that a node is still at work.
-- KEYS as in graph_shared
-- ARGV[1] node
return redis.call("ZADD", flight, "XX", now, ARGV[1])
