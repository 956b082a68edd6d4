-- Reports a run. ARGV: id, round, worker, start, hops as JSON, output, error, lines of the log.
-- Answers with {'moved'}, {'already'}, or {'gone', state, round}.
local id, round, worker, started, output, errors = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[6], ARGV[7]
local hops = cjson.decode(ARGV[5])
local first = hops[1][2]
if is_running(id, round, worker, started) then
  local lines = {}
  if ARGV[8] ~= '' then lines[1] = ARGV[8] end
  move(id, hops, {round .. ':output', output, round .. ':error', errors}, lines)
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
