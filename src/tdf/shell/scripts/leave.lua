-- Gives a worker's name up. ARGV: name, session.
local lease = redis.call('HGET', NAMES, ARGV[1])
if lease and string.match(lease, '^%S+') == ARGV[2] then return redis.call('HDEL', NAMES, ARGV[1]) end
return 0
