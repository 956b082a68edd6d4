-- Renews the leases of a worker's name and runs. ARGV: worker, seconds of a lease, session, and id, round and start of each run.
-- Answers with {id, state, round} for each run that is not the worker's any more.
local worker, lost = ARGV[1], {}
local taken = take_name(worker, ARGV[3], tonumber(ARGV[2]), '')
if taken then return taken end
local expiry = later(tonumber(ARGV[2]))
redis.call('ZADD', SEEN, STAMP, worker)
for at = 4, #ARGV, 3 do
  local id, round, started = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  if is_running(id, round, worker, started) then
    redis.call('HSET', LEASES, id, round .. ' ' .. started .. ' ' .. expiry .. ' ' .. worker)
  else
    lost[#lost + 1] = {id, found(id)}
  end
end
return lost
