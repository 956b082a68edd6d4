-- Takes ended tasks for the callbacks of one manager. ARGV: manager, seconds of a lease, how many, how many bytes, set, and either
-- 'from' and a rank, or 'ids' and ids. Answers with the number of entries that were passed over, the number that were looked at, and
-- {id, failed callbacks, {field, value, …}} for each task, and {entry, sentence} for each entry that is newly found to be no task. What
-- the manager holds already it gets again: it has lost the reply.
local me, count, bytes_max, key = ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[4]), P .. ARGV[5]
local LOOKED_MAX, PAGE = 2000, 100
local rows, poisoned, passed, looked, bytes = {}, {}, 0, 0, 0

local function pass_over(id, sentence)
  passed = passed + 1
  if redis.call('HSET', POISONED, id, sentence) == 1 then poisoned[#poisoned + 1] = {id, sentence} end
end

local function consider(id)
  looked = looked + 1
  if not is_id(id) then return pass_over(id, 'its id is no whole number from 1 on; remove the entry') end
  local free = redis.call('ZSCORE', CALLBACKS, id)
  if free and tonumber(free) > NOW and redis.call('HGET', HOLDERS, id) ~= me then
    passed = passed + 1
    return
  end
  local values = redis.pcall('HGETALL', task(id))
  if values.err or #values == 0 then return pass_over(id, 'the task has no hash') end
  redis.call('ZADD', CALLBACKS, later(tonumber(ARGV[2])), id)
  redis.call('HSET', HOLDERS, id, me)
  for _, value in ipairs(values) do bytes = bytes + #value end
  rows[#rows + 1] = {id, redis.call('HGET', ATTEMPTS, id) or '0', values}
end

if ARGV[6] == 'ids' then
  for at = 7, #ARGV do
    if #rows < count and bytes < bytes_max and redis.call('ZSCORE', key, ARGV[at]) then consider(ARGV[at]) end
  end
else
  local first = tonumber(ARGV[7])
  while #rows < count and bytes < bytes_max and looked < LOOKED_MAX do
    local page = redis.call('ZRANGE', key, first + looked, first + looked + PAGE - 1)
    for _, id in ipairs(page) do
      if #rows == count or bytes >= bytes_max then break end
      consider(id)
    end
    if #page < PAGE then break end
  end
end
return {passed, looked, rows, poisoned}
