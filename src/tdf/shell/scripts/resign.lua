-- Gives the lease of the rounds up. ARGV: who.
if redis.call('GET', P .. 'llts:server') == ARGV[1] then return redis.call('DEL', P .. 'llts:server') end
return 0
