-- Removes what one of our hashes still says of tasks that originals have moved on. ARGV: the hash, a cursor, how many entries.
-- Answers with the next cursor.
local key = P .. 'llts:' .. ARGV[1]
local page = redis.call('HSCAN', key, ARGV[2], 'COUNT', ARGV[3])
for at = 1, #page[2], 2 do
  local id, is_there = page[2][at], false
  for state in pairs(states()) do
    local counts = state ~= 'archived'
    if ARGV[1] == 'leases' then counts = state == 'running' end
    if counts and redis.call('ZSCORE', P .. state, id) then is_there = true end
  end
  if not is_there then
    redis.call('HDEL', key, id)
    if key == HOLDERS or key == ATTEMPTS then redis.call('ZREM', CALLBACKS, id) end
  end
end
return page[1]
