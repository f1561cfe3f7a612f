"""Tables, ratios, bars and the plot of the bench."""
import math
import os
import shutil
import statistics
import subprocess

from load import median_of

STUDENT_95 = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26, 10: 2.23,
              11: 2.20, 12: 2.18, 13: 2.16, 14: 2.14, 15: 2.13, 16: 2.12, 17: 2.11, 18: 2.10, 19: 2.09}


def ratio_of(ours, theirs):
    """Ratios of adjacent rounds: (median, lower and upper end of the 95 % interval of the mean)."""
    ratios = [math.log(a / b) for a, b in zip(ours, theirs)]
    median = math.exp(statistics.median(ratios))
    if len(ratios) < 2:
        return median, median, median
    student = STUDENT_95.get(len(ratios) - 1, 1.96 + 2.4 / (len(ratios) - 1))
    spread = student * statistics.stdev(ratios) / math.sqrt(len(ratios))
    mean = statistics.fmean(ratios)
    return median, math.exp(mean - spread), math.exp(mean + spread)


def costs(figures):
    return [one["cpu_us"] for one in figures["rounds"]]


def ratio(results, ours, theirs):
    return ratio_of(costs(results[ours]), costs(results[theirs]))


HEAD = (f"{'':18}{'CPU/request':>14}{'x floor':>9}{'ours/it':>9}{'95 % of that':>15}"
        f"{'requests/s':>12}{'p50':>10}{'p99':>10}{'PSS':>11}")


def microseconds(value):
    if value is None:
        return "-"
    return f"{value / 1000:.1f} ms" if value >= 10000 else f"{value:.0f} us"


def block(title, results):
    lines = ["", title, HEAD]
    for name, figures in results.items():
        floor = ours = interval = "-"
        if "floor" in results and name != "floor":
            floor = f"{ratio(results, name, 'floor')[0]:.2f}"
        if "webserverd" in results and name != "webserverd":
            median, low, high = ratio(results, "webserverd", name)
            ours, interval = f"{median:.2f}", f"{low:.2f} .. {high:.2f}"
        lines.append(f"  {name:16}{median_of(figures, 'cpu_us'):11.2f} us{floor:>9}{ours:>9}{interval:>15}"
                     f"{median_of(figures, 'rate'):12,.0f}{microseconds(median_of(figures, 'p50_us')):>10}"
                     f"{microseconds(median_of(figures, 'p99_us')):>10}{figures['pss_kib'] / 1024:7.1f} MiB")
    return "\n".join(lines)


# Bars for runs with logs on: scenario, reference, maximum ratio, what must reach it. "best" is the best of nginx, h2o
# and lighttpd, "best over TLS" the better of nginx and h2o. INTERVAL: the 95 % interval must reach the bar.
MEDIAN, INTERVAL = "median", "interval"
BARS = [
    ("small", "floor", 1.10, MEDIAN), ("small", "nginx", 0.75, MEDIAN), ("small", "h2o", 0.80, MEDIAN),
    ("small", "lighttpd", 0.90, MEDIAN), ("browser", "floor", 1.12, MEDIAN),
    ("close", "best", 0.92, MEDIAN), ("304", "nginx", 0.75, MEDIAN), ("404", "nginx", 0.75, MEDIAN),
    ("files", "best", 0.70, MEDIAN), ("pipeline", "nginx", 0.50, MEDIAN),
    ("h2-small", "h2o", 1.00, MEDIAN), ("h2-c10", "h2o", 1.00, MEDIAN), ("h2-1m", "h2o", 1.00, MEDIAN),
    ("tls-small", "best over TLS", 0.80, MEDIAN), ("tls-full", "nginx", 1.15, MEDIAN),
    ("tls-full-local", "nginx", 1.00, MEDIAN), ("tls-resume", "nginx", 1.00, MEDIAN),
    ("tls-1m", "h2o", 1.00, MEDIAN),
    ("100k", "best", 1.05, INTERVAL), ("1m", "best", 1.05, INTERVAL), ("64m", "best", 1.05, INTERVAL),
]
BEST_OF = {"best": ("nginx", "h2o", "lighttpd"), "best over TLS": ("nginx", "h2o")}


def opponent(results, name):
    if name not in BEST_OF:
        return name if name in results else None
    if not all(peer in results for peer in BEST_OF[name]):
        return None
    return min(BEST_OF[name], key=lambda peer: median_of(results[peer], "cpu_us"))


def bars(results):
    """[(what, bar, measured, text of the interval, met)] for each measured bar."""
    found = []
    for key, against, most, how in BARS:
        theirs = opponent(results.get(key, {}), against)
        if theirs is None or "webserverd" not in results[key]:
            continue
        median, low, high = ratio(results[key], "webserverd", theirs)
        what = f"{key}: ours / {theirs}" + (f" (the {against})" if against in BEST_OF else "")
        found.append((what, most, median, f"{low:.2f} .. {high:.2f}",
                      (low if how == INTERVAL else median) <= most))
    return found


def bar_table(rows):
    lines = ["", f"{'bar (CPU per request)':48}{'at most':>9}{'measured':>10}{'95 %':>15}"]
    for what, most, measured, interval, met in rows:
        lines.append(f"  {what:46}{most:9.2f}{measured:10.2f}{interval:>15}  {'met' if met else 'NOT MET'}")
    return "\n".join(lines)


def plot(results, path, titles):
    """Plots CPU per request relative to the floor (to webserverd if there is no floor) as PNG."""
    if shutil.which("gnuplot") is None:
        return False
    names = [name for name in ("webserverd", "lighttpd", "h2o", "nginx", "caddy", "apache2")
             if any(name in one for one in results.values())]
    data = path + ".dat"
    with open(data, "w") as file:
        for key, one in results.items():
            base = "floor" if "floor" in one else "webserverd"
            cells = [f"{ratio(one, name, base)[0]:.3f}" if name in one and base in one else "?" for name in names]
            file.write(f'"{titles[key]}" ' + " ".join(cells) + "\n")
    columns = ", ".join(f"'{data}' using {i + 2}:xtic(1) title '{name}'" for i, name in enumerate(names))
    script = f"""
set terminal pngcairo size 1400,700 font 'sans,11'
set output '{path}'
set title 'CPU time for a request, multiples of a bare read/write loop (less is better)'
set datafile missing '?'
set style data histogram
set style histogram clustered gap 1
set style fill solid 0.85 border -1
set yrange [0:*]
set ytics 0.5
set grid ytics
set xtics rotate by -30
set key top left
plot {columns}, 1 with lines lc rgb 'black' dt 2 title 'floor'
"""
    done = subprocess.run(["gnuplot"], input=script, text=True, capture_output=True)
    os.unlink(data)
    return done.returncode == 0
