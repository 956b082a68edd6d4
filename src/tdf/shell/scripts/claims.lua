-- What a claim answers, for the scripts of claims.

-- Fields of a task that a claim looks at, and what of them it answers.
local CLAIMED = {'program', 'source', 'input', 'start_after', 'end_before', 'timeout', 'max_timeouts', 'timeouts', 'round',
  'state', 'max_fails', 'fails', 'log', 'id', 'namespace'}

local function claimed(id, v, started)
  return {id, v[9], started, v[1], v[2], v[3], v[6], v[5], v[8], v[7]}
end

-- Bytes of a field that a claim answers, and of a whole task that is looked at no further. Whoever reads a longer one may end of it, and
-- so may the next one.
local FIELD_BYTES_MAX, TASK_BYTES = 16777216, 8388608

-- The first field that is too long for a claim, and its bytes. One call tells it of nearly every task.
local function too_long(id)
  local bytes = redis.pcall('MEMORY', 'USAGE', task(id), 'SAMPLES', 0)
  if type(bytes) == 'number' and bytes <= TASK_BYTES then return nil end
  for _, name in ipairs({'program', 'source', 'input', 'log'}) do
    bytes = redis.pcall('HSTRLEN', task(id), name)
    if type(bytes) == 'number' and bytes > FIELD_BYTES_MAX then return name, bytes end
  end
end

local function is_whole(v)
  for at = 1, #CLAIMED do
    if not v[at] then return false end
  end
  return float(v[4]) and float(v[5]) and float(v[6]) and int(v[7]) and int(v[8]) and is_round(v[9]) and int(v[11])
    and int(v[12]) and true
end
