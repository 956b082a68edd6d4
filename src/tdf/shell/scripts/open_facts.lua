-- What a server must know of open tasks. ARGV: an id and its score, for each task; no score if the id is no number. Answers with the
-- time, a row of facts for each task that a decision may be due for, and in the order of ARGV `end_before` of each task that only waits
-- until then, false for the others. Most open tasks wait, and to send and read their facts takes longer than to find that here.
-- A score that has changed since needs no look: the server sees another one in its next round.
local rows, waits, checked, waiting = {}, {}, {}, true

-- The start, if it is to come, or `waiting`; false if the server must look at the task.
local function check(v)
  local start, ending = float(v[3]), float(v[4])
  local is_whole = v[1] == 'open' and is_round(v[2]) and start and ending and float(v[5]) and int(v[6]) and int(v[7]) and int(v[8])
    and int(v[9])
  if not is_whole or ending < NOW then return false end
  return start > NOW and start or waiting
end

-- The first of the fields that only claims need, if one is missing: then no worker takes the task.
local UNREAD = {'program', 'source', 'input', 'id', 'namespace', 'log'}
local function lacking(id)
  local values = fields(id, unpack(UNREAD))
  for at, name in ipairs(UNREAD) do
    if not values[at] then return name end
  end
end

for at = 1, #ARGV, 2 do
  local id, entry, start = ARGV[at], tonumber(ARGV[at + 1]), false
  local v = fields(id, unpack(DECISIVE))
  if v and entry and v[1] and v[2] and v[3] and v[4] and v[5] and v[6] and v[7] and v[8] and v[9] then
    -- Many tasks have the same texts.
    local texts = v[1] .. ' ' .. v[2] .. ' ' .. v[3] .. ' ' .. v[4] .. ' ' .. v[5] .. ' ' .. v[6] .. ' ' .. v[7] .. ' ' .. v[8] .. ' ' .. v[9]
    start = checked[texts]
    if start == nil then
      start = check(v)
      checked[texts] = start
    end
  end
  if start == entry or (start == waiting and entry <= NOW) then
    waits[#waits + 1] = v[4]
  else
    waits[#waits + 1] = false
    entry = redis.call('ZSCORE', P .. 'open', id)
    if entry then
      local row = facts(id, 'open', entry, v)
      row[21] = v and lacking(id) or false
      rows[#rows + 1] = row
    end
  end
end
return {STAMP, rows, waits}
