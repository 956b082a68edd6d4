-- Does what a server has decided. ARGV: a list of decisions as JSON, each {kind, id, set, round, start, …}, and their fence is set,
-- round and, of a run, its start. Answers with 1 for each that was done, 0 for each whose fence does not hold.
--   {'move', id, set, round, start, hops}, {'lost', id, set, round, start, hops}
--   {'rescore', id, set, round, start, score}, {'stray', id, set, round, start}
--   {'adopt', id, state, round, '', hops, is_loss}: the task is in no set
--   {'poison', id in hexadecimal digits, set, '', '', sentence}: noted, and at the end of the line if it is open. Its id may be any bytes.
local done = {}

local function is_in_no_set(id)
  for state in pairs(states()) do
    if redis.call('ZSCORE', P .. state, id) then return false end
  end
  return true
end

local function count_loss(id) redis.call('HINCRBY', LOSSES, id, 1) end

local function holds(id, set, round, start)
  if not redis.call('ZSCORE', P .. set, id) then return false end
  local v = fields(id, 'round', round .. ':running')
  return v and v[1] == round and (start == '' or v[2] == start)
end

-- A worker that was late has renewed its lease since that was judged.
local function is_renewed(id)
  local expiry = float(string.match(redis.call('HGET', LEASES, id) or '', '^%S+ %S+ (%S+) '))
  return expiry and expiry > NOW
end

for at, d in ipairs(cjson.decode(ARGV[1])) do
  local kind, id, set, round, start = d[1], d[2], d[3], d[4], d[5]
  local did = 0
  if kind == 'poison' then
    id = string.gsub(id, '..', function(digits) return string.char(tonumber(digits, 16)) end)
    if redis.call('ZSCORE', P .. set, id) then
      redis.call('HSET', POISONED, id, d[6])
      if set == 'open' then redis.call('ZADD', P .. set, '+inf', id) end
      did = 1
    end
  elseif kind == 'adopt' then
    local v = fields(id, 'state', 'round')
    if v and v[1] == set and v[2] == round and is_in_no_set(id) then
      move(id, d[6])
      if d[7] then count_loss(id) end
      did = 1
    end
  elseif holds(id, set, round, start) then
    did = 1
    if kind == 'move' then
      move(id, d[6])
    elseif kind == 'lost' and is_renewed(id) then
      did = 0
    elseif kind == 'lost' then
      move(id, d[6])
      count_loss(id)
    elseif kind == 'rescore' then
      redis.call('ZADD', P .. set, d[6], id)
    elseif kind == 'stray' then
      local state = redis.call('HGET', task(id), 'state')
      if state ~= set and states()[state] and redis.call('ZSCORE', P .. state, id) then
        redis.call('ZREM', P .. set, id)
      else
        did = 0
      end
    end
    if redis.call('HEXISTS', POISONED, id) == 1 then redis.call('HDEL', POISONED, id) end
  end
  done[at] = did
end
return done
