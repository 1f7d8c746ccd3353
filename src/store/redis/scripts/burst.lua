-- A burst of commands in one call: takes, gives, keeps and swaps, in order, each answered by itself.
--
-- KEYS: 1 the fence counter; then the lock of each command.
-- ARGV: 1 floor, 2 prefix of the "wanted" marks; then per command, beginning with a letter:
--   t token ttl block   take                      → last number of the block | {mark, PTTL, holder}
--   p token ttl block   take, asked before        → the same
--   r token ttl block   take, after an own turn   → the same
--   g token             give                      → 1 given | 0 not ours
--   k token ttl block   keep                      → last number (1 if block is 0) | 0 not ours
--   s token new ttl     swap                      → 1 | 0 not ours
-- Every command is safe to repeat, in any order, at any later time: it compares the whole token, and a token names
-- one turn for ever. Only the server's clock is read. A command that fails answers its error and leaves the others alone.

local call = redis.call

-- The way of most calls: one command, which meets nothing unusual. It leaves out the making of the functions below, which
-- costs as much as the command itself. Whatever else comes goes on there, where a take is one that is repeated.
if #KEYS == 2 then
  local how, lock, token, floor = ARGV[3], KEYS[2], ARGV[4], tonumber(ARGV[1])
  if how == 't' and floor < 9007199254740992 then
    local set = redis.pcall('SET', lock, token, 'NX', 'PX', ARGV[5])
    if type(set) == 'table' and set.ok then
      local f = redis.pcall('INCRBY', KEYS[1], ARGV[6])
      if type(f) == 'number' then
        if f - ARGV[6] >= floor then return { f } end
        call('DECRBY', KEYS[1], ARGV[6]) -- the floor is for the number before the block
      end
    end
  elseif how == 'g' then
    local holder = redis.pcall('GET', lock)
    if holder == token then return { call('DEL', lock) } end
    if type(holder) ~= 'table' then return { 0 } end
  end
end

local counter, floor, wanted = KEYS[1], tonumber(ARGV[1]), ARGV[2]
local identity = 38 -- length of "hf1.p." and the core id: what tells one process from another

-- Reserves n numbers and returns the last. A counter at or below the floor is new, was lost or comes from a server that
-- failed over: the clock in microseconds then takes its place, which is ahead as long as fewer than one number per
-- microsecond is reserved. The number *before* the block is compared. Cf. hybrid logical clocks (Kulkarni et al., 2014).
local function fence(n)
  local f
  if n > 0 then f = call('INCRBY', counter, n) else f = tonumber(call('GET', counter) or 0) end
  if f - n >= floor then return f end
  local t = call('TIME')
  local clock = t[1] * 1000000 + t[2] + n
  if clock > f then f = clock end
  call('SET', counter, string.format('%.0f', f), 'PX', 86400000)
  return f
end

-- Never shortens.
local function raise(lock, ttl)
  if call('PTTL', lock) < tonumber(ttl) then call('PEXPIRE', lock, ttl) end
end

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
  if not ok and type(answer) == 'string' then
    -- Before Redis 7 a failed call throws text: the place in the script, maybe a minus, the error, maybe a line end.
    answer = { err = string.match(answer, '^.-user_script: ?%d+: %-?(.-)%s*$') or answer }
  end
  answers[i - 1] = answer
end
return answers
