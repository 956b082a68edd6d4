-- Lets tasks go whose callbacks were not called. ARGV: manager and ids.
for at = 2, #ARGV do
  if redis.call('HGET', HOLDERS, ARGV[at]) == ARGV[1] then
    redis.call('HDEL', HOLDERS, ARGV[at])
    redis.call('ZREM', CALLBACKS, ARGV[at])
  end
end
return 1
