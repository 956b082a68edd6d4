-- Tasks of a set by rank. ARGV: set, the first and the last rank. Answers with {id, score, round, program, input, worker} for each.
local rows = {}
local page = redis.call('ZRANGE', P .. ARGV[1], ARGV[2], ARGV[3], 'WITHSCORES')
for at = 1, #page, 2 do
  local v = fields(page[at], 'round', 'program', 'input') or {false, false, false}
  local worker = is_round(v[1]) and redis.call('HGET', task(page[at]), v[1] .. ':worker') or false
  rows[#rows + 1] = {page[at], page[at + 1], v[1], v[2], v[3], worker}
end
return rows
