-- What a claim answers, for the scripts of claims.

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
