-- The runs of a worker, and a new lease for each. ARGV: worker, seconds of a lease. `running` has an entry for each busy worker.
local worker, rows = ARGV[1], {}
local expiry = later(tonumber(ARGV[2]))
for _, id in ipairs(redis.call('ZRANGE', P .. 'running', 0, -1)) do
  local v = fields(id, 'round', 'program', 'source', 'input', 'timeout', 'end_before', 'timeouts', 'max_timeouts')
  local round = v and v[1]
  if is_round(round) then
    local run = fields(id, round .. ':running', round .. ':worker')
    if run[2] == worker and float(run[1]) then
      redis.call('HSET', LEASES, id, round .. ' ' .. run[1] .. ' ' .. expiry .. ' ' .. worker)
      rows[#rows + 1] = {id, round, run[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8]}
    end
  end
end
return rows
