-- Archives a task whose callback is done. ARGV: id, set, hops as JSON. Answers with 1, or with 0 if it is not in the set any more.
if not redis.call('ZSCORE', P .. ARGV[2], ARGV[1]) then return 0 end
if not fields(ARGV[1], 'state') then return 0 end
move(ARGV[1], cjson.decode(ARGV[3]))
return 1
