"use strict";
/* Draws the events of /events, after the past of /history.json. What the server sends is only ever written as text. */

const SECONDS = 900, DETAILS_MS = 5000;
const element = id => document.getElementById(id);
const svg = "http://www.w3.org/2000/svg";

function decimal(value, units, step) {
  let unit = 0;
  while (value >= step && unit + 1 < units.length) {
    value /= step;
    unit++;
  }
  const digits = unit === 0 && Number.isInteger(value) ? 0 : value < 10 ? 2 : value < 100 ? 1 : 0;
  return value.toFixed(digits) + units[unit];
}

const asCount = value => decimal(value, ["", " k", " M", " G"], 1000);
const asBytes = value => decimal(value, [" B", " KiB", " MiB", " GiB", " TiB"], 1024);
const asPercent = value => (100 * value).toFixed(1) + "%";
const asTime = ns => ns < 6e10 ? decimal(ns / 1000, [" µs", " ms", " s"], 1000) : asAge(ns / 1e9);
function asAge(seconds) {
  const [d, h, m, s] = [86400, 3600, 60, 1].map(unit => Math.floor(seconds / unit));
  const two = (number, all) => String(number % all).padStart(2, "0");
  return d > 0 ? `${d}d ${two(h, 24)}h` : h > 0 ? `${h}h ${two(m, 60)}m` : m > 0 ? `${m}m ${two(s, 60)}s` : `${s} s`;
}

/* NOW and BEFORE are events, SECONDS the time between them. null: no value. */
const rate = name => (now, before, seconds) => (now.counters[name] - before.counters[name]) / seconds;
const errors = (now, before, seconds) =>
  (now.responses[2] + now.responses[3] - before.responses[2] - before.responses[3]) / seconds;
function hitRatio(now, before) {
  const hits = now.counters.cache_hits - before.counters.cache_hits;
  const all = hits + now.counters.cache_misses - before.counters.cache_misses;
  return all > 0 ? hits / all : null;
}

/* Of the connections that left a queue; if none did, how long the oldest waits. */
function queueWait(now, before) {
  const taken = now.counters.queue_taken - before.counters.queue_taken;
  return taken > 0 ? (now.counters.queue_wait - before.counters.queue_wait) / taken : now.counters.queue_oldest;
}

const panels = [
  { title: "Requests/s", value: rate("requests"), text: asCount,
    more: now => asCount(now.counters.requests) + " since the start" },
  { title: "Latency p99", value: now => now.latency_ns && now.latency_ns.p99, text: asTime,
    more: now => now.latency_ns ? "p50 " + asTime(now.latency_ns.p50) + ", max " + asTime(now.latency_ns.max) : "" },
  { title: "Sent/s", value: rate("bytes_sent"), text: asBytes,
    more: now => asBytes(now.counters.bytes_sent) + " since the start" +
      (now.counters.bytes_saved > 0 ? ", " + asBytes(now.counters.bytes_saved) + " saved by codings" : "") },
  { title: "Connections", value: now => now.counters.connections_open, text: asCount,
    more: now => asCount(now.counters.connections_busy) + " busy" },
  { title: "4xx and 5xx/s", value: errors, text: asCount,
    more: now => "2xx " + asCount(now.responses[0]) + ", 3xx " + asCount(now.responses[1]) + ", 4xx " + asCount(now.responses[2]) +
      ", 5xx " + asCount(now.responses[3]) },
  { title: "Cache hit ratio", value: hitRatio, text: asPercent,
    more: now => asBytes(now.counters.cache_bytes) + " of " + asBytes(now.counters.cache_limit) },
  { title: "Queue wait", value: queueWait, text: asTime, shown: now => now.counters.queue_capacity > 0,
    more: now => asCount(now.counters.queue_length) + " of " + asCount(now.counters.queue_capacity) + " places, " +
      asCount(now.counters.queue_dropped) + " dropped" + (now.queue_wait_ns ? ", p50 " + asTime(now.queue_wait_ns.p50) + ", p99 " +
      asTime(now.queue_wait_ns.p99) + ", max " + asTime(now.queue_wait_ns.max) + " since the start" : "") },
];

function makePanel(panel) {
  const box = document.createElement("div"), title = document.createElement("h2");
  const graph = document.createElementNS(svg, "svg");
  box.className = "panel";
  panel.box = box;
  box.hidden = panel.shown !== undefined;
  title.textContent = panel.title;
  panel.number = document.createElement("output");
  panel.note = document.createElement("p");
  panel.path = document.createElementNS(svg, "path");
  panel.past = [];
  graph.setAttribute("viewBox", `0 0 ${SECONDS - 1} 100`);
  graph.setAttribute("preserveAspectRatio", "none");
  graph.setAttribute("aria-hidden", "true");
  panel.number.setAttribute("aria-live", "off");
  graph.append(panel.path);
  const axis = document.createElement("div"), begin = document.createElement("span"), end = document.createElement("span");
  axis.className = "axis";
  panel.top = document.createElement("div");
  panel.top.className = "top";
  panel.begin = begin;
  end.textContent = "0, now";
  axis.append(begin, end);
  box.append(title, panel.number, panel.note, panel.top, graph, axis);
  element("panels").append(box);
}

function drawGraph(panel) {
  const top = Math.max(...panel.past.filter(value => value !== null), panel.text === asPercent ? 1 : 1e-9);
  let line = "", pen = "M";
  panel.past.forEach((value, i) => {
    if (value !== null)
      line += `${pen}${SECONDS - panel.past.length + i} ${(98 - 96 * value / top).toFixed(1)}`;
    pen = value !== null ? "L" : "M";
  });
  panel.path.setAttribute("d", line);
  panel.top.textContent = top > 1e-9 ? panel.text(top) : "";
  panel.begin.textContent = `−${SECONDS / 60} min`;
}

function remember(panel, value) {
  panel.past.push(value);
  panel.past.splice(0, panel.past.length - SECONDS);
}

/* A sample of the history, as an event. */
function sampleAsEvent(names, sample) {
  const counters = {};
  names.forEach((name, i) => counters[name] = sample[i + 1]);
  const rest = sample.slice(names.length + 1), p99 = rest[4];
  return { time_ms: sample[0], counters, responses: rest.slice(0, 4), latency_ns: p99 === null ? null : { p99 } };
}

/* A second without a sample or event has no value. */
function rememberValues(now, before, seconds) {
  const missing = Math.min(Math.round(seconds) - 1, SECONDS);
  for (const panel of panels) {
    for (let i = 0; i < missing; i++)
      remember(panel, null);
    remember(panel, panel.value(now, before, seconds));
  }
}

/* Replaces what the panels have: at the start, and after a pause. */
function showHistory(history) {
  let before = null;
  for (const panel of panels)
    panel.past = [];
  for (const sample of history.samples) {
    const now = sampleAsEvent(history.counters, sample);
    if (before !== null && now.time_ms > before.time_ms)
      rememberValues(now, before, (now.time_ms - before.time_ms) / 1000);
    before = now;
  }
  for (const panel of panels) {
    panel.box.hidden = panel.shown !== undefined && (before === null || !panel.shown(before));
    drawGraph(panel);
  }
}

function drawPanels(now, before, seconds) {
  rememberValues(now, before, seconds);
  for (const panel of panels) {
    const value = panel.past[panel.past.length - 1];
    panel.box.hidden = panel.shown !== undefined && !panel.shown(now);
    panel.number.textContent = value === null ? "–" : panel.text(value);
    panel.note.textContent = panel.more(now);
    drawGraph(panel);
  }
}

function drawThreads(now, before, seconds) {
  const requests = new Map(before.threads.map(one => [one.worker + "." + one.thread, one.requests]));
  element("rows").replaceChildren(...now.threads.map(one => {
    const row = document.createElement("tr"), old = requests.get(one.worker + "." + one.thread);
    const cells = [one.worker, one.acceptor ? "acceptor" : one.thread, one.state, asTime(one.since_ms * 1e6),
      old === undefined ? "–" : asCount((one.requests - old) / seconds), asCount(one.connections), one.work];
    cells.forEach((text, i) => {
      const cell = document.createElement("td");
      cell.textContent = text;
      cell.className = i >= 3 && i <= 5 ? "number" : "";
      row.append(cell);
    });
    return row;
  }));
}

/* Rows of texts; a cell may be {text, kind}, its class. */
function fillTable(name, rows) {
  element(name + "-section").hidden = rows.length === 0;
  element(name).replaceChildren(...rows.map(cells => {
    const row = document.createElement("tr");
    for (const one of cells) {
      const cell = document.createElement("td");
      cell.textContent = typeof one === "object" ? one.text : one;
      cell.className = typeof one === "object" ? one.kind : "";
      row.append(cell);
    }
    return row;
  }));
}

const number = text => ({ text, kind: "number" });
const asDate = ms => new Date(ms).toLocaleString();

function drawDetails(details) {
  fillTable("hosts", details.hosts.map(host => [host.name, number(asCount(host.requests)), number(asCount(host.responses_4xx)),
    number(asCount(host.responses_5xx)), number(asBytes(host.body_bytes)), number(asTime(host.p99_ns))]));
  fillTable("certificates", details.certificates.map(one => {
    const days = Math.floor((one.not_after_s - Date.now() / 1000) / 86400);
    return [one.names, one.issuer, { text: `${asDate(one.not_after_s * 1000)} (${days} d)`, kind: days < 2 ? "bad" : "" },
      one.next_attempt_s > 0 ? asDate(one.next_attempt_s * 1000) : "–", { text: one.error, kind: "bad" }];
  }));
  fillTable("events", details.events.reverse().map(event => [asDate(event.time_ms),
    { text: event.level, kind: event.level === "error" ? "bad" : "" }, `${event.role} ${event.pid}`, event.text]));
}

async function readJson(path) {
  const answer = await fetch(path);
  if (!answer.ok)
    throw new Error(path);
  return answer.json();
}

/* After a failure, as of a server that restarts, with the next interval. */
async function updateDetails() {
  if (!paused && !document.hidden)
    await readJson("/details.json").then(drawDetails, () => {});
  setTimeout(updateDetails, DETAILS_MS);
}

function showState(text, bad) {
  if (element("state").textContent !== text)
    element("state").textContent = text;
  element("state").className = bad ? "bad" : "";
}

const loadHistory = () => readJson("/history.json").then(showHistory, () => {});
let last = null, paused = false;

function show(now) {
  const seconds = last ? (now.time_ms - last.time_ms) / 1000 : 0;
  document.title = element("name").textContent = now.name;
  element("about").textContent = `webserverd ${now.version}, up ${asAge(now.uptime_s)}, configuration ${now.generation}, ` +
    `${now.model !== "events" ? `model ${now.model}, ` : ""}workers ${now.workers} of ${now.workers_wanted}, threads ${now.threads.filter(one => !one.acceptor).length}`;
  showState(now.stopping ? "stopping" : now.counters.maintenance > 0 ? "maintenance: answers 503" : paused ? "paused" : "live",
    now.stopping || now.counters.maintenance > 0);
  if (last && seconds > 0 && now.counters.requests >= last.counters.requests) {
    drawPanels(now, last, seconds);
    drawThreads(now, last, seconds);
  }
  last = now;
}

function pause() {
  paused = !paused;
  element("pause").setAttribute("aria-pressed", paused);
  showState(paused ? "paused" : "live", false);
  if (!paused) {
    last = null; // what the pause has missed is in the history
    loadHistory();
  }
}

panels.forEach(makePanel);
element("pause").addEventListener("click", pause);
function follow() {
  const source = new EventSource("/events");
  source.addEventListener("message", event => {
    if (!paused)
      show(JSON.parse(event.data));
  });
  source.addEventListener("error", () => showState(source.readyState === EventSource.CLOSED
    ? "the server refuses events: it has enough pages open, or its users have changed; reload this page"
    : "no connection to the server; trying again", true));
}

loadHistory().then(follow);
updateDetails();
