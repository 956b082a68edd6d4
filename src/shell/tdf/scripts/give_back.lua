-- Gives a run back whose program was never started: the same round waits again. ARGV: id, round, worker, start, hops as JSON.
local id, round, worker, started = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
if is_running(id, round, worker, started) then
  move(id, cjson.decode(ARGV[5]))
  return 1
end
return 0
