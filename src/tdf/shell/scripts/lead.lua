-- Takes or keeps the lease of the rounds. ARGV: who, milliseconds, a dead holder to replace. Answers with the time, and who has it.
local key = P .. 'llts:server'
local holder = redis.call('GET', key)
if holder and holder ~= ARGV[1] and holder ~= ARGV[3] then return {STAMP, holder} end
redis.call('SET', key, ARGV[1], 'PX', ARGV[2])
return {STAMP, ARGV[1]}
