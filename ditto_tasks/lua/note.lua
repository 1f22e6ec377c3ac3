-- Put a name on a list until it has expired (with noting.lua before it).
-- KEYS[1] list
-- ARGV[1] ms, [2] name
note(KEYS[1], ARGV[1], ARGV[2])
return 1
