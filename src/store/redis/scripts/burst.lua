
local function granted(queue, last, left)
  if left then return { last, call('EXISTS', queue), left } end
  if call('EXISTS', queue) == 1 then return { last, 1 } end
  return last
end

local function take(lock, queue, token, ttl, block, waits)
  -- What nobody waits for, first: most are of this kind. Without memory it is refused here, before anything is written.
  if not tried and call('EXISTS', queue) == 0 and call('SET', lock, token, 'NX', 'PX', ttl) then return fence(block) end
  local holder = call('GET', lock)
  if not holder then
    local first = pass_on(lock, queue, token)
    if not first or first == token then
      call('ZREM', queue, token)
      call('SET', lock, token, 'PX', ttl)
      return granted(queue, fence(block))
    end
    holder = first
  elseif holder == token then
    -- Our own earlier attempt, whose answer was lost: its ttl may be nearly over.
    raise(lock, ttl)
    return granted(queue, fence(block))
  end
  if waits then enqueue(lock, queue, token, holder) end
  return refused(lock, queue, token)
end

-- Extends nothing and adds nothing to the queue.
local function beat(lock, queue, token, block)
  local holder = call('GET', lock)
  if holder == token then return granted(queue, fence(block), call('PTTL', lock)) end
  if not call('ZSCORE', queue, token) then return 0 end
  call('PEXPIRE', queue, queue_lasts)
  if not holder then
    if pass_on(lock, queue, token) == token then
      local _, _, claim = parts(token)
      call('SET', lock, token, 'PX', claim)
      return granted(queue, fence(block), tonumber(claim))
    end
  elseif call('ZRANGE', queue, 0, 0)[1] == token then
    want(lock, holder)
  end
  return refused(lock, queue, token)
end

local function keep(lock, queue, token, ttl, block)
  if call('GET', lock) ~= token then return 0 end
  raise(lock, ttl)
  return granted(queue, block > 0 and fence(block) or 1)
end

local function swap(lock, token, new, ttl)
  local holder = call('GET', lock)
  if holder == token then
    call('SET', lock, new, 'PX', ttl)
  elseif holder == new then
    raise(lock, ttl)
  else
    return 0
  end
  return 1
end

local answers, at = {}, 3
for i = 2, #KEYS, 2 do
  local how, lock, queue, token = ARGV[at], KEYS[i], KEYS[i + 1], ARGV[at + 1]
  local ok, answer
  if how == 'g' then
    ok, answer = pcall(give_plain, lock, queue, token)
    at = at + 2
  elseif how == 'k' then
    ok, answer = pcall(keep, lock, queue, token, ARGV[at + 2], tonumber(ARGV[at + 3]))
    at = at + 4
  elseif how == 's' then
    ok, answer = pcall(swap, lock, token, ARGV[at + 2], ARGV[at + 3])
    at = at + 4
  elseif how == 'b' then
    ok, answer = pcall(beat, lock, queue, token, tonumber(ARGV[at + 2]))
    at = at + 3
  else
    ok, answer = pcall(take, lock, queue, token, ARGV[at + 2], tonumber(ARGV[at + 3]), how == 'w')
    at = at + 4
  end
  answers[i / 2] = answered(ok, answer)
end
return answers
