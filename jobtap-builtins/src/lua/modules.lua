-- The modules written in C that the manager serves in their place: see `modules.rs`, which lists their functions.
--
-- `native` are the functions that Rust provides, `lists` the functions of each module by its name. Returns the modules
-- by name.

local native, lists, sandbox = ...
local error, type, pairs, setmetatable, tonumber, tostring = error, type, pairs, setmetatable, tonumber, tostring
local tointeger, floor, time = math.tointeger, math.floor, os.time
local string_format = string.format

-- At level 1, the caller is a function that a script calls.
local function bad_argument(index, name, expected, value, level)
  local got = value == nil and "nil" or type(value)
  error(string_format("bad argument #%d to '%s' (%s expected, got %s)", index, name, expected, got), level + 2)
end

local function outside_sandbox(name)
  if sandbox then
    error(name .. " is not available in the sandbox", 3)
  end
end

local modules = {}

---------------------------------------------------------------------------------------------------
-- bit32, as in Lua 5.2

local bit32 = {}
modules.bit32 = bit32

local function word(value, index, name)
  local number = tonumber(value)
  if not number then
    bad_argument(index, name, "number", value, 2)
  end
  return (tointeger(number) or floor(number + 0.5) // 1 | 0) & 0xffffffff
end

local function folded(name, start, fold)
  return function(...)
    local result = start
    for index, value in pairs({ ... }) do
      result = fold(result, word(value, index, name))
    end
    return result
  end
end
bit32.band = folded("band", 0xffffffff, function(a, b) return a & b end)
bit32.bor = folded("bor", 0, function(a, b) return a | b end)
bit32.bxor = folded("bxor", 0, function(a, b) return a ~ b end)
function bit32.btest(...)
  return bit32.band(...) ~= 0
end
function bit32.bnot(value)
  return ~word(value, 1, "bnot") & 0xffffffff
end
function bit32.lshift(value, count)
  value, count = word(value, 1, "lshift"), tointeger(tonumber(count) or 0) or 0
  return value << count & 0xffffffff
end
function bit32.rshift(value, count)
  value, count = word(value, 1, "rshift"), tointeger(tonumber(count) or 0) or 0
  return value >> count & 0xffffffff
end
function bit32.arshift(value, count)
  value, count = word(value, 1, "arshift"), tointeger(tonumber(count) or 0) or 0
  if count <= 0 or value < 0x80000000 then
    return value >> count & 0xffffffff
  end
  return (value >> count | ~(0xffffffff >> count)) & 0xffffffff
end
function bit32.lrotate(value, count)
  value, count = word(value, 1, "lrotate"), (tointeger(tonumber(count) or 0) or 0) % 32
  return (value << count | value >> (32 - count)) & 0xffffffff
end
function bit32.rrotate(value, count)
  return bit32.lrotate(value, -(tointeger(tonumber(count) or 0) or 0))
end
local function field(first, width, name)
  first, width = tointeger(tonumber(first)), tointeger(tonumber(width == nil and 1 or width))
  if not first or not width or first < 0 or width < 1 or first + width > 32 then
    error("trying to access non-existent bits in '" .. name .. "'", 3)
  end
  return first, (1 << width) - 1
end
function bit32.extract(value, first, width)
  value = word(value, 1, "extract")
  local at, mask = field(first, width, "extract")
  return value >> at & mask
end
function bit32.replace(value, bits, first, width)
  value, bits = word(value, 1, "replace"), word(bits, 2, "replace")
  local at, mask = field(first, width, "replace")
  return value & ~(mask << at) | (bits & mask) << at
end

---------------------------------------------------------------------------------------------------
-- cjson

local cjson, safe = { null = native.null }, { null = native.null }
modules.cjson, modules["cjson.safe"] = cjson, safe

function safe.encode(value)
  return native.to_document("cjson", value)
end
function safe.decode(text)
  if type(text) == "number" then
    text = tostring(text)
  end
  if type(text) ~= "string" then
    bad_argument(1, "decode", "string", text, 1)
  end
  local ok, value = native.from_document("cjson", text)
  if not ok then
    return nil, value
  end
  return value
end
function cjson.encode(value)
  local text, message = safe.encode(value)
  if not text then
    error(message, 2)
  end
  return text
end
function cjson.decode(text)
  if type(text) ~= "string" and type(text) ~= "number" then
    bad_argument(1, "decode", "string", text, 1)
  end
  local value, message = safe.decode(text)
  if message then
    error(message, 2)
  end
  return value
end

---------------------------------------------------------------------------------------------------
-- posix, lfs, socket

local posix = {}
modules.posix = posix

-- An account by its name or number, by default the manager's own; or one member of it.
function posix.getpasswd(user, member)
  outside_sandbox("posix.getpasswd")
  if type(user) == "number" then
    user = string_format("%d", floor(user))
  elseif user ~= nil and type(user) ~= "string" then
    bad_argument(1, "getpasswd", "string", user, 1)
  end
  local account = native.account(user)
  if account and member ~= nil then
    return account[member]
  end
  return account
end
function posix.getgroups()
  outside_sandbox("posix.getgroups")
  return native.groups()
end
function posix.time()
  return time()
end

local lfs = {}
modules.lfs = lfs

function lfs.attributes(path, member)
  outside_sandbox("lfs.attributes")
  if type(path) ~= "string" then
    bad_argument(1, "attributes", "string", path, 1)
  end
  local attributes, message, number = native.attributes(path)
  if not attributes then
    return nil, "cannot obtain information from file '" .. path .. "': " .. message, number
  end
  if type(member) == "string" then
    return attributes[member]
  end
  return attributes
end

local socket = {}
modules.socket = socket

function socket.gettime()
  return native.now()
end

-- What is not served is refused by its name, whether it is called or looked at.
for name, module in pairs(modules) do
  setmetatable(module, {
    __index = function(_, key)
      error(name .. "." .. tostring(key) .. " is not served; of " .. name .. " there are " .. lists[name], 2)
    end,
  })
end

return modules
