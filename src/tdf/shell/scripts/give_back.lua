-- Gives a run back: the same round waits again. ARGV: id, round, worker, start, hops as JSON, and 'loss' if it is to be counted.
local id, round, worker, started = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
if is_running(id, round, worker, started) then
  move(id, cjson.decode(ARGV[5]))
  if ARGV[6] == 'loss' then redis.call('HINCRBY', LOSSES, id, 1) end
  return 1
end
return 0
