-- Puts off a task whose callback has failed. ARGV: manager, id, failed callbacks, seconds until the next one.
if redis.call('HGET', HOLDERS, ARGV[2]) ~= ARGV[1] then return 0 end
redis.call('HDEL', HOLDERS, ARGV[2])
redis.call('HSET', ATTEMPTS, ARGV[2], ARGV[3])
redis.call('ZADD', CALLBACKS, later(tonumber(ARGV[4])), ARGV[2])
return 1
