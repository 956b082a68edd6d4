-- A task with all of its fields and the set that it is in. ARGV: id.
local set = false
for state in pairs(states()) do
  if redis.call('ZSCORE', P .. state, ARGV[1]) then set = state end
end
local values = redis.pcall('HGETALL', task(ARGV[1]))
if values.err then values = {} end
return {set, values}
