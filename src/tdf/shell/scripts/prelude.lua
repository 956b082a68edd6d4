-- What every script begins with, and so what each call costs at least. KEYS[1] is the prefix of the namespace.
local P = KEYS[1]
local LEASES = P .. 'llts:leases'

-- The time of this script: a number, and the text that every field and score of it gets. Six decimals without zeros at the end
-- are the shortest decimal of that double.
local TIME = redis.call('TIME')
local NOW = tonumber(TIME[1]) + tonumber(TIME[2]) / 1000000
local function stamp_of(seconds, micros)
  local text = string.format('%d.%06d', seconds, micros)
  if micros % 10 ~= 0 then return text end
  text = string.gsub(text, '0+$', '')
  if string.sub(text, -1) == '.' then return text .. '0' end
  return text
end
local STAMP = stamp_of(tonumber(TIME[1]), tonumber(TIME[2]))
local function later(seconds)
  local micros = tonumber(TIME[1]) * 1000000 + tonumber(TIME[2]) + math.floor(seconds * 1000000)
  return stamp_of(math.floor(micros / 1000000), micros % 1000000)
end

-- The present time for people, the same in all of the script. The day of the calendar is counted in eras of 400
-- years that begin in March, so that a leap day is the last of its year.
local DATE
local function date()
  if DATE then return DATE end
  local floor = math.floor
  local seconds = tonumber(TIME[1])
  local days, rest = floor(seconds / 86400) + 719468, seconds % 86400
  local era = floor(days / 146097)
  local day = days - era * 146097
  local year = floor((day - floor(day / 1460) + floor(day / 36524) - floor(day / 146096)) / 365)
  day = day - (365 * year + floor(year / 4) - floor(year / 100))
  local month = floor((5 * day + 2) / 153)
  day = day - floor((153 * month + 2) / 5) + 1
  year = year + era * 400
  if month < 10 then month = month + 3 else month, year = month - 9, year + 1 end
  local hour, minute = floor(rest / 3600), floor(rest / 60) % 60
  DATE = string.format('%04d-%02d-%02d %02d:%02d:%02d', year, month, day, hour, minute, rest % 60)
  return DATE
end

-- The names of the sets. Few scripts need them on the way of each task, so the others do not pay for the table.
local function states()
  return {open = true, running = true, executed = true, timeout = true, timed_out = true, expired = true, succeeded = true,
    failure = true, failed = true, archived = true}
end

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
  if text == 'inf' then return math.huge end
  if string.find(text, '^%d+%.?%d*$') then return tonumber(text) end
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
  if text and string.find(text, '^%d+$') then return tonumber(text) end
  if text and string.match(text, '^%s*[+-]?%d+%s*$') then return tonumber((string.gsub(text, '%+', ''))) end
  return nil
end

-- The id of a task: a second form of a number would be a second key for the same task. Each has at most 19 digits, as the counter of
-- Redis has.
local function is_id(text)
  return string.find(text, '^[1-9]%d*$') and #text < 20
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

local function found(id)
  local values = fields(id, 'state', 'round')
  if not values then return 'no hash', '' end
  return values[1] or 'no state', values[2] or ''
end

-- Whether this run is the one that has the task: the round, the worker and the start of the entry in `running`.
local function is_running(id, round, worker, started)
  if not redis.call('ZSCORE', P .. 'running', id) then return false end
  local values = fields(id, 'round', round .. ':worker', round .. ':running')
  return values and values[1] == round and values[2] == worker and values[3] == started
end
