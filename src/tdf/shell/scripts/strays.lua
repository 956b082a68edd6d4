-- Looks for tasks that are in no set. ARGV: the first and the last id. Answers with the time and a row for each of them.
local rows = {}
for id = tonumber(ARGV[1]), tonumber(ARGV[2]) do
  id = string.format('%d', id)
  local v = fields(id, 'state')
  local state = v and v[1]
  if states()[state] and not redis.call('ZSCORE', P .. state, id) and not redis.call('ZSCORE', P .. 'archived', id) then
    local elsewhere = false
    for other in pairs(states()) do
      if redis.call('ZSCORE', P .. other, id) then elsewhere = true end
    end
    if not elsewhere then rows[#rows + 1] = facts(id, false, false) end
  end
end
return {STAMP, rows}
