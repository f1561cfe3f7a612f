-- Prints the results of a wrk run as one line of JSON.
function done(summary, latency)
    local errors = summary.errors
    print(string.format(
        '{"requests":%d,"bytes":%d,"seconds":%.6f,"p50_us":%.0f,"p99_us":%.0f,"failed":%d,"statuses":%d}',
        summary.requests, summary.bytes, summary.duration / 1e6,
        latency:percentile(50), latency:percentile(99),
        errors.connect + errors.read + errors.write + errors.timeout, errors.status))
end
