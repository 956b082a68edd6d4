-- The runs that an earlier process of this worker's name has left, as a claim answers them. ARGV: worker. A run without a lease is one
-- of an original of the same name. `running` has an entry for each busy worker.
local worker, rows = ARGV[1], {}
for _, id in ipairs(redis.call('ZRANGE', P .. 'running', 0, -1)) do
  local round, started = string.match(redis.call('HGET', LEASES, id) or '', '^(%S+) (%S+) ')
  if round and is_running(id, round, worker, started) then
    local v = fields(id, unpack(CLAIMED))
    if is_whole(v) then rows[#rows + 1] = claimed(id, v, started) end
  end
end
return rows
