-- Claims open tasks that are due, the lowest score first. ARGV: worker, token, count, seconds of a lease, seconds of a token.
-- Answers with a row for each task. The token of the worker's last claim gets what it got before, as far as that still runs.
local worker, token, count = ARGV[1], ARGV[2], tonumber(ARGV[3])
local LAST = P .. 'llts:claim:' .. worker
local OPEN, RUNNING = P .. 'open', P .. 'running'
local PAGE, EXAMINED_MAX, AHEAD = 64, 1024, 16
local rows, taken = {}, {}

local expiry = later(tonumber(ARGV[4])) .. ' ' .. worker
local function lease(id, round, started)
  redis.call('HSET', LEASES, id, round .. ' ' .. started .. ' ' .. expiry)
end

local before = redis.call('GET', LAST)
if before and string.sub(before, 1, #token + 1) == token .. ' ' then
  for round, started, id in string.gmatch(string.sub(before, #token + 2), '(%S+) (%S+) (%S+)') do
    if is_running(id, round, worker, started) and not too_long(id) then
      lease(id, round, started)
      rows[#rows + 1] = claimed(id, fields(id, unpack(CLAIMED)), started)
    end
  end
  return rows
end

local function take(id, v)
  local round = v[9]
  local log = date() .. ' - moving task ' .. id .. ': open -> running'
  if v[13] ~= '' then log = v[13] .. '\n' .. log end
  redis.call('HSET', task(id), 'log', log, 'state', 'running', round .. ':running', STAMP, round .. ':worker', worker)
  redis.call('ZREM', OPEN, id)
  redis.call('ZADD', RUNNING, STAMP, id)
  lease(id, round, STAMP)
  rows[#rows + 1] = claimed(id, v, STAMP)
  taken[#taken + 1] = round .. ' ' .. STAMP .. ' ' .. id
end

-- Whether the entry stays where it is in the set.
local function consider(id)
  if not is_id(id) then
    -- No worker can name it.
    redis.call('ZADD', OPEN, '+inf', id)
    return false
  end
  local name, bytes = too_long(id)
  if name then
    -- No worker takes it until it is shorter and its score is set back, and its log says so.
    local line = date() .. ' - parked task ' .. id .. ': its field ' .. name .. ' has ' .. bytes .. ' bytes; at most '
      .. FIELD_BYTES_MAX .. ' are taken: write a shorter one, and set its score in open to 0'
    local log = name ~= 'log' and redis.call('HGET', task(id), 'log')
    redis.call('HSET', task(id), 'log', log and log ~= '' and log .. '\n' .. line or line)
    redis.call('ZADD', OPEN, '+inf', id)
    return false
  end
  local v = fields(id, unpack(CLAIMED))
  if not v or not is_whole(v) then
    -- Nothing can be done with it, and an original worker would die of it: it goes to the end of the line.
    redis.call('ZADD', OPEN, '+inf', id)
    return false
  end
  if v[10] ~= 'open' and states()[v[10]] and redis.call('ZSCORE', P .. v[10], id) then
    -- A second entry of a task that is elsewhere.
    redis.call('ZREM', OPEN, id)
    return false
  end
  if float(v[4]) > NOW then
    redis.call('ZADD', OPEN, score(float(v[4])), id)
    return false
  end
  -- The server makes it expired.
  if float(v[5]) < NOW then return true end
  take(id, v)
  return false
end

local examined, skipped = 0, 0
while #rows < count and examined < EXAMINED_MAX do
  local page = redis.call('ZRANGEBYSCORE', OPEN, '-inf', STAMP, 'LIMIT', skipped, math.min(PAGE, count - #rows + 3))
  if #page == 0 then break end
  for _, id in ipairs(page) do
    if #rows == count then break end
    examined = examined + 1
    if consider(id) then skipped = skipped + 1 end
  end
end
-- A task that was opened again by a clock that is ahead has a score in the future, and is due.
if #rows == 0 then
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', OPEN, '(' .. STAMP, '(+inf', 'LIMIT', 0, AHEAD)) do
    if #rows == count then break end
    local start = fields(id, 'start_after')
    if start and float(start[1]) and float(start[1]) <= NOW then consider(id) end
  end
end
if #taken > 0 then redis.call('SET', LAST, token .. ' ' .. table.concat(taken, ' '), 'EX', ARGV[5]) end
return rows
