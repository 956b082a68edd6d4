-- Gives a worker's name up. ARGV: name, session.
local lease = redis.call('HGET', NAMES, ARGV[1])
if lease and string.match(lease, '^%S+') == ARGV[2] then
  redis.call('HDEL', JOINED, ARGV[1])
  return redis.call('HDEL', NAMES, ARGV[1])
end
return 0
