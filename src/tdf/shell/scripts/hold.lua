-- Holds tasks on while their callbacks run. ARGV: manager, seconds of a lease, ids.
for at = 3, #ARGV do
  if redis.call('HGET', HOLDERS, ARGV[at]) == ARGV[1] then
    redis.call('ZADD', CALLBACKS, later(tonumber(ARGV[2])), ARGV[at])
  end
end
return 1
