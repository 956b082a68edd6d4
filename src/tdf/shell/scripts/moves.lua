-- Facts and moves of tasks, for the scripts of both.

local function append(log, lines)
  local added = table.concat(lines, '\n')
  if not log or log == '' then return added end
  return log .. '\n' .. added
end

-- Fields of a task that a server decides by.
local DECISIVE = {'state', 'round', 'start_after', 'end_before', 'timeout', 'max_fails', 'max_timeouts', 'fails', 'timeouts'}

-- The facts that a server decides by, in the order in which protocol/tdf/facts.rs reads them. `values` are the decisive ones, if they
-- have been read.
local function facts(id, set, score, values)
  local row = {id, set or false, score or false}
  values = values or fields(id, unpack(DECISIVE))
  if not values then values = {false, false, false, false, false, false, false, false, false} end
  for at = 1, 9 do row[3 + at] = values[at] end
  local round = values[2]
  for at = 13, 19 do row[at] = false end
  -- What waits has no run, and there may be very many of them.
  if set ~= 'open' and is_round(round) then
    local of_round = redis.call('HMGET', task(id), round .. ':running', round .. ':worker', round .. ':executed')
    row[13], row[14], row[15] = of_round[1], of_round[2], of_round[3]
    if redis.call('HEXISTS', task(id), round .. ':output') == 1 then row[16] = '1' end
    if redis.call('HEXISTS', task(id), round .. ':error') == 1 then
      row[17] = tostring(redis.call('HSTRLEN', task(id), round .. ':error'))
    end
  end
  if set ~= 'open' then
    row[18] = redis.call('HGET', LEASES, id)
    row[19] = redis.call('HGET', P .. 'llts:losses', id)
  end
  local state = values[1]
  row[20] = (set and state ~= set and states()[state] and redis.call('ZSCORE', P .. state, id)) and '1' or false
  return row
end

-- Moves a task over its hops, of which each is {from, to, round, {field, value, …}, note}: fields before sets, the log of Redis
-- and no copy of it, all with the time of this script. The caller has checked the fence. What it has read already need not be read
-- again: `log`, and `row`, the facts of a task that is executed now.
local function move(id, hops, extra, lines, log, row)
  local key, last = task(id), hops[#hops][2]
  local set = extra or {}
  lines = lines or {}
  local day = date()
  for _, hop in ipairs(hops) do
    local from, to, round, changes, note = hop[1], hop[2], hop[3], hop[4], hop[5]
    lines[#lines + 1] = day .. ' - moving task ' .. id .. ': ' .. from .. ' -> ' .. to .. note
    for _, text in ipairs(changes) do set[#set + 1] = text end
    set[#set + 1], set[#set + 2] = round .. ':' .. to, STAMP
    if to ~= 'archived' then set[#set + 1], set[#set + 2] = 'state', to end
  end
  set[#set + 1], set[#set + 2] = 'log', append(log or redis.call('HGET', key, 'log'), lines)
  redis.call('HSET', key, unpack(set))
  if hops[1][1] ~= 'none' then redis.call('ZREM', P .. hops[1][1], id) end
  redis.call('ZADD', P .. last, STAMP, id)
  if hops[1][1] == 'running' then redis.call('HDEL', LEASES, id) end
  if last == 'open' then
    redis.call('PUBLISH', P .. 'llts:wake', id)
  elseif last == 'executed' then
    redis.call('PUBLISH', P .. 'llts:wake:executed', cjson.encode(row or facts(id, last, STAMP)))
  elseif last == 'archived' then
    redis.call('HDEL', P .. 'llts:losses', id)
    redis.call('ZREM', P .. 'llts:callbacks', id)
    redis.call('HDEL', P .. 'llts:callback_holders', id)
    redis.call('HDEL', P .. 'llts:callback_attempts', id)
  else
    redis.call('PUBLISH', P .. 'llts:wake:ended', last .. ' ' .. id)
  end
end
