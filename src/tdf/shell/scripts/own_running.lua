-- The runs that a process of this worker's name has left. ARGV: worker. Answers with {id, round, start, losses, fails, max_fails} for each.
-- A run without a lease is one of an original of the same name. `running` has an entry for each busy worker.
local worker, rows = ARGV[1], {}
for _, id in ipairs(redis.call('ZRANGE', P .. 'running', 0, -1)) do
  local round, started = string.match(redis.call('HGET', LEASES, id) or '', '^(%S+) (%S+) ')
  if is_id(id) and round and is_running(id, round, worker, started) then
    local v = fields(id, 'fails', 'max_fails')
    local losses = redis.call('HGET', LOSSES, id)
    rows[#rows + 1] = {id, round, started, losses or '0', int(v[1]) and v[1] or '0', int(v[2]) and v[2] or '0'}
  end
end
return rows
