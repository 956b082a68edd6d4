-- The leases of workers' names, for the scripts that register and renew.

-- Takes or keeps the lease of a worker's name for a session. Another session is in the way while its lease lasts, unless it is the
-- one to replace: then the answer is an error with what is known of its process.
local function take_name(name, session, seconds, replaced)
  local lease = redis.call('HGET', NAMES, name)
  if lease then
    local other, expiry = string.match(lease, '^(%S+) (%S+)$')
    if other and other ~= session and other ~= replaced and tonumber(expiry) > NOW then
      return redis.error_reply('NAMETAKEN ' .. (redis.call('HGET', WORKERS, name) or '{}'))
    end
  end
  redis.call('HSET', NAMES, name, session .. ' ' .. later(seconds))
  return nil
end
