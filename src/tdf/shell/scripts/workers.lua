-- The workers. Answers with the time and {name, number, what it is, when it was seen, running tasks} for each; the last three only
-- of ours.
local running, rows = {}, {}
for _, id in ipairs(redis.call('ZRANGE', P .. 'running', 0, -1)) do
  local round = fields(id, 'round')
  local name = round and is_round(round[1]) and redis.call('HGET', task(id), round[1] .. ':worker')
  if name then running[name] = (running[name] or 0) + 1 end
end
for _, name in ipairs(redis.call('SMEMBERS', P .. 'worker')) do
  rows[#rows + 1] = {name, redis.call('GET', P .. 'worker_id:' .. name), redis.call('HGET', WORKERS, name),
    redis.call('ZSCORE', SEEN, name), running[name] or 0}
end
return {STAMP, rows}
