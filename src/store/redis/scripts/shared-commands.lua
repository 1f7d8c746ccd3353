
local now -- in milliseconds, of the server

-- What the holds make of a lock: gone without any, else it lasts as long as the longest. Returns how many there are.
local function settle(lock, holds, value)
  call('ZREMRANGEBYSCORE', holds, '-inf', now)
  local longest = call('ZREVRANGE', holds, 0, 0, 'WITHSCORES')[2]
  if call('GET', lock) ~= value then return 0 end
  if not longest then
    call('DEL', lock, holds)
    return 0
  end
  call('PEXPIRE', lock, longest - now)
  call('PEXPIRE', holds, longest - now)
  return call('ZCARD', holds)
end

-- Never shortens.
local function hold(holds, token, ttl)
  local ends = now + ttl
  local known = tonumber(call('ZSCORE', holds, token) or 0)
  if known < ends then call('ZADD', holds, string.format('%.0f', ends), token) end
end

-- Whether this turn has the lock: by its name, or by its owner's and a hold of its own that isn't over.
local function has(lock, holds, value, token)
  return call('GET', lock) == value and (not holds or tonumber(call('ZSCORE', holds, token) or 0) > now)
end

local function all(locks, holds, value, token)
  for i, lock in ipairs(locks) do
    if not has(lock, holds[i], value, token) then return false end
  end
  return true
end

local function take(locks, holds, value, how, token, ttl, block)
  local holder, left
  for _, lock in ipairs(locks) do
    local other, behind = call('GET', lock), false
    if how == 'r' and other ~= value then
      -- Another process asked in vain during our turn: it comes first.
      local mark = call('GET', wanted .. lock)
      behind = mark and string.sub(mark, 1, identity) ~= string.sub(token, 1, identity)
      if behind then other = other or '' end
    end
    if other and other ~= value then
      local rest = call('PTTL', lock)
      -- All of them must be free: the last one counts, unless one may be released at any time.
      if not holder then left = rest elseif left >= 0 then left = rest < 0 and rest or math.max(left, rest) end
      if not holder or holder == '' then holder = other end
      if not behind and string.sub(other, 1, 4) == 'hf1.' then call('SET', wanted .. lock, token, 'PX', 1500) end
    end
  end
  if holder then return { fence(0), left, holder } end
  local count = 1
  for i, lock in ipairs(locks) do
    if not call('GET', lock) then
      -- First: without memory nothing must be written before this is refused.
      call('SET', lock, value, 'PX', ttl)
      if holds[i] then call('DEL', holds[i]) end
      if how == 'p' and call('GET', wanted .. lock) == token then call('DEL', wanted .. lock) end
    else
      raise(lock, ttl)
    end
    if holds[i] then
      hold(holds[i], token, ttl)
      count = math.max(count, settle(lock, holds[i], value))
    end
  end
  return { fence(block), count }
end

local function give(locks, holds, value, token)
  local mine = 1
  for i, lock in ipairs(locks) do
    if not has(lock, holds[i], value, token) then
      mine = 0
    elseif holds[i] then
      call('ZREM', holds[i], token)
      settle(lock, holds[i], value)
    else
      call('DEL', lock)
    end
  end
  return mine
end

local function keep(locks, holds, value, token, ttl, block)
  if not all(locks, holds, value, token) then return 0 end
  for i, lock in ipairs(locks) do
    raise(lock, ttl)
    if holds[i] then
      hold(holds[i], token, ttl)
      settle(lock, holds[i], value)
    end
  end
  if block > 0 then return fence(block) end
  return 1
end

local function swap(locks, holds, value, token, new, ttl)
  -- Without an owner the name is the value.
  local after = holds[1] and value or new
  if all(locks, holds, value, token) then
    for i, lock in ipairs(locks) do
      if holds[i] then
        call('ZREM', holds[i], token)
        hold(holds[i], new, ttl)
        settle(lock, holds[i], value)
      else
        call('SET', lock, new, 'PX', ttl)
      end
    end
    return 1
  end
  if all(locks, holds, after, new) then return keep(locks, holds, after, new, ttl, 0) end
  return 0
end

local t = call('TIME')
now = t[1] * 1000 + math.floor(t[2] / 1000)

local answers, at, key = {}, 3, 2
while at <= #ARGV do
  local how, token, owner, count = ARGV[at], ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3])
  local value = owner == '' and token or 'hf1.o.' .. owner
  local locks, holds = {}, {}
  for i = 1, count do
    locks[i] = KEYS[key + i - 1]
    if owner ~= '' then holds[i] = KEYS[key + count + i - 1] end
  end
  key = key + (owner == '' and count or 2 * count)
  at = at + 4
  local ok, answer
  if how == 'g' then
    ok, answer = pcall(give, locks, holds, value, token)
  elseif how == 'k' then
    ok, answer = pcall(keep, locks, holds, value, token, tonumber(ARGV[at]), tonumber(ARGV[at + 1]))
    at = at + 2
  elseif how == 's' then
    ok, answer = pcall(swap, locks, holds, value, token, ARGV[at], tonumber(ARGV[at + 1]))
    at = at + 2
  else
    ok, answer = pcall(take, locks, holds, value, how, token, tonumber(ARGV[at]), tonumber(ARGV[at + 1]))
    at = at + 2
  end
  answers[#answers + 1] = answered(ok, answer)
end
return answers
