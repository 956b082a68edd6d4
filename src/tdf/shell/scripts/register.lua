-- Registers a worker as the original does, in one step. ARGV: name, what it is as JSON, session, seconds
-- of a lease, the session to replace. Answers with its number.
local name, about = ARGV[1], ARGV[2]
local taken = take_name(name, ARGV[3], tonumber(ARGV[4]), ARGV[5])
if taken then return taken end
local key = P .. 'worker_id:' .. name
local id = redis.call('GET', key)
if not id then
  id = tostring(redis.call('INCR', P .. 'worker_id'))
  redis.call('SET', key, id)
end
-- An original that was killed has its number and is not in the set.
redis.call('SADD', P .. 'worker', name)
redis.call('HSET', WORKERS, name, about)
redis.call('ZADD', SEEN, STAMP, name)
return id
