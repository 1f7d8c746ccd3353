
local now -- in milliseconds, of the server

-- What the holds make of a lock: free without any, else it lasts as long as the longest. Returns how many there are.
local function settle(lock, queue, holds, value)
  call('ZREMRANGEBYSCORE', holds, '-inf', now)
  local longest = call('ZREVRANGE', holds, 0, 0, 'WITHSCORES')[2]
  if call('GET', lock) ~= value then return 0 end
  if not longest then
    call('DEL', holds)
    free(lock, queue)
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

-- The first lock that somebody else has.
local function taken(locks, queues, value, token)
  for i, lock in ipairs(locks) do
    local holder = call('GET', lock)
    -- Without a queue nothing is written here, so that without memory the take is refused before anything is.
    if not holder and call('EXISTS', queues[i]) == 1 then
      holder = pass_on(lock, queues[i], token)
      if holder == token then
        -- Its turn has come here, and others must not pass it while it waits elsewhere.
        local _, _, claim = parts(token)
        call('SET', lock, token, 'PX', claim)
      end
    end
    if holder and holder ~= value and holder ~= token then return i, holder end
  end
end

-- Waits for lock `i`: keeps what it was granted before it in the order, and gives back what comes after.
local function wait(locks, queues, token, i, holder)
  local _, _, claim = parts(token)
  for j, lock in ipairs(locks) do
    if j ~= i then
      call('ZREM', queues[j], token)
      if call('GET', lock) == token then
        if j < i then raise(lock, claim) else free(lock, queues[j]) end
      end
    end
  end
  enqueue(locks[i], queues[i], token, holder)
end

local function take(locks, queues, holds, value, token, ttl, block, waits)
  local i, holder = taken(locks, queues, value, token)
  if i then
    if waits then wait(locks, queues, token, i, holder) end
    return refused(locks[i], queues[i], token)
  end
  local count = 1
  for i, lock in ipairs(locks) do
    if call('GET', lock) == value then
      raise(lock, ttl)
    else
      -- First: without memory nothing must be written before this is refused.
      call('SET', lock, value, 'PX', ttl)
      if holds[i] then call('DEL', holds[i]) end
    end
    call('ZREM', queues[i], token)
    if holds[i] then
      hold(holds[i], token, ttl)
      count = math.max(count, settle(lock, queues[i], holds[i], value))
    end
  end
  return { fence(block), 0, -1, count }
end

local function give(locks, queues, holds, value, token)
  local mine = 1
  for i, lock in ipairs(locks) do
    call('ZREM', queues[i], token)
    if not has(lock, holds[i], value, token) then
      mine = 0
      -- Granted in the queue, and not yet its owner's.
      if holds[i] and call('GET', lock) == token then free(lock, queues[i]) end
    elseif holds[i] then
      call('ZREM', holds[i], token)
      settle(lock, queues[i], holds[i], value)
    else
      free(lock, queues[i])
    end
  end
  return mine
end

local function keep(locks, queues, holds, value, token, ttl, block)
  if not all(locks, holds, value, token) then return 0 end
  local wanted = 0
  for i, lock in ipairs(locks) do
    raise(lock, ttl)
    if holds[i] then
      hold(holds[i], token, ttl)
      settle(lock, queues[i], holds[i], value)
    end
    wanted = math.max(wanted, call('EXISTS', queues[i]))
  end
  return { block > 0 and fence(block) or 1, wanted }
end

local function swap(locks, queues, holds, value, token, new, ttl)
  -- Without an owner the name is the value.
  local after = holds[1] and value or new
  if all(locks, holds, value, token) then
    for i, lock in ipairs(locks) do
      if holds[i] then
        call('ZREM', holds[i], token)
        hold(holds[i], new, ttl)
        settle(lock, queues[i], holds[i], value)
      else
        call('SET', lock, new, 'PX', ttl)
      end
    end
    return 1
  end
  if not all(locks, holds, after, new) then return 0 end
  keep(locks, queues, holds, after, new, ttl, 0)
  return 1
end

local t = call('TIME')
now = t[1] * 1000 + math.floor(t[2] / 1000)

local answers, at, key = {}, 3, 2
while at <= #ARGV do
  local how, token, owner, count = ARGV[at], ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3])
  local value = owner == '' and token or 'hf1.o.' .. owner
  local locks, queues, holds = {}, {}, {}
  for i = 1, count do
    locks[i] = KEYS[key + i - 1]
    queues[i] = KEYS[key + count + i - 1]
    if owner ~= '' then holds[i] = KEYS[key + 2 * count + i - 1] end
  end
  key = key + (owner == '' and 2 * count or 3 * count)
  at = at + 4
  local ok, answer
  if how == 'g' then
    ok, answer = pcall(give, locks, queues, holds, value, token)
  elseif how == 'k' then
    ok, answer = pcall(keep, locks, queues, holds, value, token, tonumber(ARGV[at]), tonumber(ARGV[at + 1]))
    at = at + 2
  elseif how == 's' then
    ok, answer = pcall(swap, locks, queues, holds, value, token, ARGV[at], tonumber(ARGV[at + 1]))
    at = at + 2
  else
    ok, answer = pcall(take, locks, queues, holds, value, token, tonumber(ARGV[at]), tonumber(ARGV[at + 1]), how == 'w')
    at = at + 2
  end
  answers[#answers + 1] = answered(ok, answer)
end
return answers
