-- Sends 16 requests in one write.
dofile("report.lua")
local batch

function init()
    local one = wrk.format()
    batch = string.rep(one, 16)
end

function request()
    return batch
end
