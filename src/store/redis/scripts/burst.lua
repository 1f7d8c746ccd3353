
local function take(lock, how, token, ttl, block)
  local mark
  if how == 'r' then
    -- Another process asked in vain during our turn: it comes first.
    mark = call('GET', wanted .. lock)
    local holder = call('GET', lock)
    if mark and string.sub(mark, 1, identity) ~= string.sub(token, 1, identity) and holder ~= token then
      return { fence(0), call('PTTL', lock), holder or '' }
    end
  end
  if call('SET', lock, token, 'NX', 'PX', ttl) then
    if how == 'p' and call('GET', wanted .. lock) == token then call('DEL', wanted .. lock) end
    return fence(block)
  end
  local holder = call('GET', lock)
  if holder == token then
    -- Our own earlier attempt, whose answer was lost: its ttl may be nearly over.
    raise(lock, ttl)
    return fence(block)
  end
  if string.sub(holder, 1, 4) == 'hf1.' then call('SET', wanted .. lock, token, 'PX', 1500) end
  return { fence(0), call('PTTL', lock), holder }
end

local function give(lock, token)
  if call('GET', lock) ~= token then return 0 end
  call('DEL', lock)
  return 1
end

local function keep(lock, token, ttl, block)
  if call('GET', lock) ~= token then return 0 end
  raise(lock, ttl)
  if block > 0 then return fence(block) end
  return 1
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
for i = 2, #KEYS do
  local how = ARGV[at]
  local ok, answer
  if how == 'g' then
    ok, answer = pcall(give, KEYS[i], ARGV[at + 1])
    at = at + 2
  elseif how == 'k' then
    ok, answer = pcall(keep, KEYS[i], ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3]))
    at = at + 4
  elseif how == 's' then
    ok, answer = pcall(swap, KEYS[i], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3])
    at = at + 4
  else
    ok, answer = pcall(take, KEYS[i], how, ARGV[at + 1], ARGV[at + 2], tonumber(ARGV[at + 3]))
    at = at + 4
  end
  answers[i - 1] = answered(ok, answer)
end
return answers
