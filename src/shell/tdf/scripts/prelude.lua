-- What every script begins with. KEYS[1] is the prefix of the namespace.
local P = KEYS[1]
local LEASES, LOSSES = P .. 'llts:leases', P .. 'llts:losses'
local CALLBACKS, HOLDERS, ATTEMPTS = P .. 'llts:callbacks', P .. 'llts:callback_holders', P .. 'llts:callback_attempts'
local POISONED, SEEN = P .. 'llts:poisoned', P .. 'llts:seen'
local WORKERS, NAMES = P .. 'llts:workers', P .. 'llts:names'

-- The time of this script: a number, and the text that every field and score of it gets. Six decimals without zeros at the end
-- are the shortest decimal of that double.
local TIME = redis.call('TIME')
local NOW = tonumber(TIME[1]) + tonumber(TIME[2]) / 1000000
local function stamp_of(seconds, micros)
  local decimals = string.gsub(string.format('%06d', micros), '0+$', '')
  if decimals == '' then decimals = '0' end
  return string.format('%d', seconds) .. '.' .. decimals
end
local STAMP = stamp_of(tonumber(TIME[1]), tonumber(TIME[2]))
local function later(seconds)
  local micros = tonumber(TIME[1]) * 1000000 + tonumber(TIME[2]) + math.floor(seconds * 1000000)
  return stamp_of(math.floor(micros / 1000000), micros % 1000000)
end

-- Takes or keeps the lease of a worker's name for a session. Another session is in the way while its lease lasts, unless it is the
-- one to replace: then the answer is an error with what is known of its process.
local function take_name(name, session, seconds, replaced)
  local lease = redis.call('HGET', NAMES, name)
  if lease then
    local other, expiry = string.match(lease, '^(%S+) (%S+)$')
    if other and other ~= session and other ~= replaced and tonumber(expiry) > NOW then
      return redis.error_reply('NAMETAKEN ' .. (redis.call('HGET', WORKERS, name) or '{}'))
    end
  end
  redis.call('HSET', NAMES, name, session .. ' ' .. later(seconds))
  return nil
end

-- The day of the calendar, counted in eras of 400 years that begin in March, so that a leap day is the last of its year.
local function date()
  local seconds = tonumber(TIME[1])
  local days, rest = math.floor(seconds / 86400) + 719468, seconds % 86400
  local era = math.floor(days / 146097)
  local day = days - era * 146097
  local year = math.floor((day - math.floor(day / 1460) + math.floor(day / 36524) - math.floor(day / 146096)) / 365)
  day = day - (365 * year + math.floor(year / 4) - math.floor(year / 100))
  local month = math.floor((5 * day + 2) / 153)
  day = day - math.floor((153 * month + 2) / 5) + 1
  year = year + era * 400
  if month < 10 then month = month + 3 else month, year = month - 9, year + 1 end
  local hour, minute = math.floor(rest / 3600), math.floor(rest / 60) % 60
  return string.format('%04d-%02d-%02d %02d:%02d:%02d', year, month, day, hour, minute, rest % 60)
end

local STATES = {open = true, running = true, executed = true, timeout = true, timed_out = true, expired = true, succeeded = true,
  failure = true, failed = true, archived = true}

local function task(id) return P .. 'task:' .. id end

-- A number as Redis reads it.
local function score(number)
  if number == math.huge then return '+inf' end
  if number == -math.huge then return '-inf' end
  return string.format('%.17g', number)
end

-- What Python's float reads, but for nan; nil otherwise.
local function float(text)
  if not text then return nil end
  local t = string.lower(string.match(text, '^%s*(.-)%s*$'))
  if t == 'inf' or t == '+inf' or t == 'infinity' or t == '+infinity' then return math.huge end
  if t == '-inf' or t == '-infinity' then return -math.huge end
  if string.match(t, '^[+-]?%d+%.?%d*$') or string.match(t, '^[+-]?%.%d+$')
    or string.match(t, '^[+-]?%d+%.?%d*e[+-]?%d+$') or string.match(t, '^[+-]?%.%d+e[+-]?%d+$') then
    return tonumber((string.gsub(t, '^%+', '')))
  end
  return nil
end

-- What Python's int reads; nil otherwise.
local function int(text)
  if text and string.match(text, '^%s*[+-]?%d+%s*$') then return tonumber((string.gsub(text, '%+', ''))) end
  return nil
end

-- A round as it is the first part of the names of fields.
local function is_round(text)
  return text and (text == '0' or string.match(text, '^[1-9]%d*$')) and #text < 10
end

-- The fields of a hash; nil if the key is none.
local function fields(id, ...)
  local values = redis.pcall('HMGET', task(id), ...)
  if values.err then return nil end
  return values
end

local function append(log, lines)
  local added = table.concat(lines, '\n')
  if not log or log == '' then return added end
  return log .. '\n' .. added
end

local function found(id)
  local values = fields(id, 'state', 'round')
  if not values then return 'no hash', '' end
  return values[1] or 'no state', values[2] or ''
end

-- Fields of a task that a server decides by.
local DECISIVE = {'state', 'round', 'start_after', 'end_before', 'timeout', 'max_fails', 'max_timeouts', 'fails', 'timeouts'}

-- The facts that a server decides by, in the order in which protocol/tdf/facts.rs reads them.
local function facts(id, set, score)
  local row = {id, set or false, score or false}
  local values = fields(id, unpack(DECISIVE))
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
    row[19] = redis.call('HGET', LOSSES, id)
  end
  local state = values[1]
  row[20] = (set and state ~= set and STATES[state] and redis.call('ZSCORE', P .. state, id)) and '1' or false
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
    redis.call('HDEL', LOSSES, id)
    redis.call('ZREM', CALLBACKS, id)
    redis.call('HDEL', HOLDERS, id)
    redis.call('HDEL', ATTEMPTS, id)
  else
    redis.call('PUBLISH', P .. 'llts:wake:ended', last .. ' ' .. id)
  end
end

-- Whether this run is the one that has the task: the round, the worker and the start of the entry in `running`.
local function is_running(id, round, worker, started)
  if not redis.call('ZSCORE', P .. 'running', id) then return false end
  local values = fields(id, 'round', round .. ':worker', round .. ':running')
  return values and values[1] == round and values[2] == worker and values[3] == started
end

-- Fields of a task that a claim looks at, and what of them it answers.
local CLAIMED = {'program', 'source', 'input', 'start_after', 'end_before', 'timeout', 'max_timeouts', 'timeouts', 'round',
  'state', 'max_fails', 'fails', 'log', 'id', 'namespace'}

local function claimed(id, v, started)
  return {id, v[9], started, v[1], v[2], v[3], v[6], v[5], v[8], v[7]}
end

local function is_whole(v)
  for at = 1, #CLAIMED do
    if not v[at] then return false end
  end
  return float(v[4]) and float(v[5]) and float(v[6]) and int(v[7]) and int(v[8]) and is_round(v[9]) and int(v[11])
    and int(v[12]) and true
end
