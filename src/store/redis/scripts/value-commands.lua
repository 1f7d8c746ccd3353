
local waiters_last = 60000 -- ms; renewed by those who wait

local function put(key, value, ms)
  if tonumber(ms) > 0 then call('SET', key, value, 'PX', ms) else call('SET', key, value) end
end

-- The value if it is there, how much of its ttl is left, and how long it is kept when it isn't fresh any more.
local function value_of(key)
  local value = call('GET', key)
  if not value then return nil end
  local kept = string.match(value, '^hf1 %l %d+ (%d+)\n')
  return value, call('PTTL', key), tonumber(kept)
end

-- Tells all who wait for a value. Who can't be told finds it by looking.
local function tell(key, waiters, news)
  for _, core in ipairs(call('SMEMBERS', waiters)) do
    redis.pcall('PUBLISH', channels .. core, news .. ' ' .. key)
  end
  call('DEL', waiters)
end

local function look(key, lock, waiters, failure, token, core, backs_off)
  local failed = backs_off == '1' and call('GET', failure)
  if failed then return { 'e', failed } end
  local value, left, kept = value_of(key)
  if kept and (left < 0 or left > kept) then return { left, value } end
  local holder = call('GET', lock)
  if not holder or holder == token then return 0 end
  call('SADD', waiters, core)
  call('PEXPIRE', waiters, waiters_last)
  return { 't', call('PTTL', lock) }
end

local function finish(key, lock, waiters, failure, token, how, what, ms)
  if call('GET', lock) ~= token then return 0 end
  if how == 'v' then
    local start = redis.pcall('GETRANGE', key, 0, 3)
    if start ~= '' and start ~= 'hf1 ' then
      tell(key, waiters, 'v')
      return -1
    end
    put(key, what, ms)
    call('DEL', failure)
    tell(key, waiters, 'v')
  elseif how == 'n' then
    tell(key, waiters, 'n' .. what)
  else
    -- Who has an older value can wait before it is loaded again, but not for longer than that value lasts.
    local left = call('PTTL', key)
    if left == -1 or left > tonumber(ms) then left = tonumber(ms) end
    if left > 0 and left ~= -2 then call('SET', failure, what, 'PX', left) end
    tell(key, waiters, 'e' .. #what .. ' ' .. what)
  end
  return 1
end

local function overrule(key, lock, queue, waiters, failure, how, what, ms)
  local there
  if how == 's' then
    there = call('EXISTS', key)
    put(key, what, ms)
  elseif how == 'd' then
    there = call('DEL', key)
  else
    local value, left, kept = value_of(key)
    there = kept and 1 or 0
    if kept == 0 then
      call('DEL', key)
    elseif kept and (left < 0 or left > kept) then
      call('PEXPIRE', key, kept)
    end
  end
  -- In this order: who is told may look at once.
  call('DEL', failure)
  local holder = call('GET', lock)
  if holder then
    free(lock, queue)
    local kind, core = parts(holder)
    if kind == 'h' then redis.pcall('PUBLISH', channels .. core, 't ' .. holder .. ' ' .. lock) end
  end
  tell(key, waiters, 'v')
  return there
end

local answers, at = {}, 3
for i = 2, #KEYS, 5 do
  local key, lock, queue, waiters, failure = KEYS[i], KEYS[i + 1], KEYS[i + 2], KEYS[i + 3], KEYS[i + 4]
  local how = ARGV[at]
  local ok, answer
  if how == 'l' then
    ok, answer = pcall(look, key, lock, waiters, failure, ARGV[at + 1], ARGV[at + 2], ARGV[at + 3])
    at = at + 4
  elseif how == 'f' then
    ok, answer = pcall(finish, key, lock, waiters, failure, ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4])
    at = at + 5
  elseif how == 'o' then
    ok, answer = pcall(overrule, key, lock, queue, waiters, failure, ARGV[at + 1], ARGV[at + 2], ARGV[at + 3])
    at = at + 4
  else
    ok, answer = pcall(give_plain, lock, queue, ARGV[at + 1])
    at = at + 2
  end
  answers[(i + 3) / 5] = answered(ok, answer)
end
return answers
