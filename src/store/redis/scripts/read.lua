-- Cached values, as many as there are KEYS: {PTTL, value}, or nothing, or an error for data of another kind.

local answers = {}
for i, key in ipairs(KEYS) do
  local value = redis.pcall('GET', key)
  if type(value) == 'string' then value = { redis.call('PTTL', key), value } end
  answers[i] = value
end
return answers
