-- Registers a worker as the original does, in one step. ARGV: name, what it is as JSON. Answers with its number.
local name, about = ARGV[1], ARGV[2]
local key = P .. 'worker_id:' .. name
local id = redis.call('GET', key)
if not id then
  id = tostring(redis.call('INCR', P .. 'worker_id'))
  redis.call('SET', key, id)
end
-- An original that was killed has its number and is not in the set.
redis.call('SADD', P .. 'worker', name)
redis.call('HSET', P .. 'llts:workers', name, about)
redis.call('ZADD', SEEN, STAMP, name)
return id
