-- Read by siblings.lua.
return { minutes = 1440, text = "%d minutes are more than a day" }
