-- Takes or keeps the lease of the rounds. ARGV: who, milliseconds. Answers with 1, or with who has it.
local key = P .. 'llts:server'
local holder = redis.call('GET', key)
if holder and holder ~= ARGV[1] then return holder end
redis.call('SET', key, ARGV[1], 'PX', ARGV[2])
return 1
