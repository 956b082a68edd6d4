-- The facts of tasks of one set. ARGV: set, 'ids' and the ids, or 'range' and the first and last rank.
-- Answers with the time in unix seconds and a row for each task that is in the set.
local set, rows = ARGV[1], {}
local key = P .. set
if ARGV[2] == 'range' then
  local page = redis.call('ZRANGE', key, ARGV[3], ARGV[4], 'WITHSCORES')
  for at = 1, #page, 2 do rows[#rows + 1] = facts(page[at], set, page[at + 1]) end
else
  for at = 3, #ARGV do
    local entry = redis.call('ZSCORE', key, ARGV[at])
    if entry then rows[#rows + 1] = facts(ARGV[at], set, entry) end
  end
end
return {STAMP, rows}
