-- Opens tasks. ARGV: token, seconds of a token, namespace, and for each task program, source, input, start_after, end_before,
-- timeout, max_fails, max_timeouts. Answers with the ids. The same token gets the ids that it got before.
local token, ids, is_due = P .. 'llts:opened:' .. ARGV[1], {}, false
local before = redis.call('GET', token)
if before then
  for id in string.gmatch(before, '%S+') do ids[#ids + 1] = id end
  return ids
end
for at = 4, #ARGV, 8 do
  local id, start = nil, float(ARGV[at + 3])
  -- A counter that was reset must not write over a task.
  repeat id = string.format('%d', redis.call('INCR', P .. 'task_id')) until redis.call('EXISTS', task(id)) == 0
  redis.call('HSET', task(id), 'program', ARGV[at], 'source', ARGV[at + 1], 'input', ARGV[at + 2], 'id', id,
    'start_after', ARGV[at + 3], 'end_before', ARGV[at + 4], 'timeout', ARGV[at + 5], 'max_fails', ARGV[at + 6],
    'max_timeouts', ARGV[at + 7], 'state', 'open', 'round', '0', 'fails', '0', 'timeouts', '0', 'log', '',
    'namespace', ARGV[3], '0:open', STAMP)
  redis.call('ZADD', P .. 'open', score(start), id)
  if start <= NOW then is_due = true end
  ids[#ids + 1] = id
end
redis.call('SET', token, table.concat(ids, ' '), 'EX', ARGV[2])
if is_due then redis.call('PUBLISH', P .. 'llts:wake', ids[1]) end
return ids
