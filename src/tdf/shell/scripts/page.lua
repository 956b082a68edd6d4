-- Ids and scores of one set by rank, from the highest score down. ARGV: set, the first and the last rank.
-- Answers with the time and the page.
return {STAMP, redis.call('ZREVRANGE', P .. ARGV[1], ARGV[2], ARGV[3], 'WITHSCORES')}
