-- Reports a run. ARGV: id, round, worker, start, hops as JSON, output, error, lines of the log.
-- Answers with {'moved'}, {'already'}, or {'gone', state, round}.
local id, round, worker, started, output, errors = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[6], ARGV[7]
local hops = cjson.decode(ARGV[5])
local first = hops[1][2]

-- One look at everything that the way of each task needs: a call from a script costs more than a field.
local known = {round .. ':running', round .. ':worker', 'log'}
for at, name in ipairs(DECISIVE) do known[3 + at] = name end
known = fields(id, unpack(known))
if known and known[5] == round and known[1] == started and known[2] == worker and redis.call('ZSCORE', P .. 'running', id) then
  local lines = {}
  if ARGV[8] ~= '' then lines[1] = ARGV[8] end
  local row = {id, 'executed', STAMP, 'executed'}
  for at = 5, 12 do row[at] = known[at] end
  row[13], row[14], row[15], row[16], row[17] = started, worker, STAMP, '1', tostring(#errors)
  -- No verdict on an executed task needs its lease or losses.
  row[18], row[19], row[20] = false, false, false
  move(id, hops, {round .. ':output', output, round .. ':error', errors}, lines, known[3], row)
  return {'moved'}
end
-- Only this report can have left the same texts for the same run.
local v = fields(id, round .. ':' .. first, round .. ':worker', round .. ':running', round .. ':output', round .. ':error')
if v and v[1] and v[2] == worker and v[3] == started and v[4] == output and v[5] == errors then return {'already'} end
local lease = redis.call('HGET', LEASES, id)
if lease and string.sub(lease, 1, #round + #started + 2) == round .. ' ' .. started .. ' ' then
  redis.call('HDEL', LEASES, id)
end
return {'gone', found(id)}
