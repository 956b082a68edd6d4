-- The runs that an earlier process of this worker's name has left, as a claim answers them. ARGV: worker, seconds of a lease, losses that
-- are allowed, session. A run without a lease is one of an original of the same name. `running` has an entry for each busy worker.
-- A process that has ended before it could renew the lease of a run may have ended of that run, so that counts as a loss of it. With too
-- many of them the run is left to its lease: the server ends it. A process that asks again has lost the answer, and counts nothing.
local worker, rows = ARGV[1], {}
local is_again = redis.call('HGET', JOINED, worker) == ARGV[4]
redis.call('HSET', JOINED, worker, ARGV[4])

-- Whether the lease is the one that the claim has given.
local function is_new(started, ending)
  return float(started) and float(ending) and float(ending) - float(started) <= tonumber(ARGV[2]) + 0.001
end

local function losses_of(id)
  if is_again then return tonumber(redis.call('HGET', LOSSES, id) or 0) end
  return redis.call('HINCRBY', LOSSES, id, 1)
end

for _, id in ipairs(redis.call('ZRANGE', P .. 'running', 0, -1)) do
  local round, started, ending = string.match(redis.call('HGET', LEASES, id) or '', '^(%S+) (%S+) (%S+)')
  if is_id(id) and round and is_running(id, round, worker, started) then
    local losses = is_new(started, ending) and losses_of(id) or 0
    if losses <= tonumber(ARGV[3]) and not too_long(id) then
      local v = fields(id, unpack(CLAIMED))
      if is_whole(v) then rows[#rows + 1] = claimed(id, v, started) end
    end
  end
end
return rows
