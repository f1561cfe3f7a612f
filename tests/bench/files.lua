-- Requests 5,000 files, /f/0.html and so on, in an order without locality.
dofile("report.lua")
local count, step = 5000, 1597
local requests, at = {}, 0

function init()
    for i = 0, count - 1 do
        requests[i] = wrk.format(nil, "/f/" .. i .. ".html")
    end
end

function request()
    at = (at + step) % count
    return requests[at]
end
