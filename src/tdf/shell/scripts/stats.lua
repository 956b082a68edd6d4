-- Counts. ARGV: the names of the sets. Answers with the size of each, then tasks opened, workers, poisoned entries, and the server.
local counts = {}
for at, set in ipairs(ARGV) do counts[at] = redis.call('ZCARD', P .. set) end
local opened = redis.call('GET', P .. 'task_id')
return {counts, opened or '0', redis.call('SCARD', P .. 'worker'), redis.call('HLEN', POISONED), redis.call('GET', P .. 'llts:server')}
