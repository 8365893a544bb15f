"use strict";
const css = name => getComputedStyle(document.body).getPropertyValue(name).trim();
const COLOURS = { critical: "#c0392b", warning: "#d9920a", info: "#5f6b76", good: "#2e8b57" };
const CAUSES = ["#c0392b", "#d9920a", "#8e44ad", "#2471a3", "#b9770e", "#7b241c", "#1f618d", "#6c3483"];
const LANES = ["#33507a", "#2e8b57", "#7d4fb3", "#2aa3b0", "#8a6d3b", "#5f6b76"];
const SIGNS = { "●": "met", "○": "not met", "?": "not observed" };
const list = (items, tag = "ul") => { const l = make(tag); for (const i of items) l.append(make("li", i)); return l; };
const reasons = why => { const l = list(why.map(([sign, text]) => `${sign} ${SIGNS[sign] ?? ""}: ${text}`)); l.className = "signs"; return l; };

// --- Head, verdict, breakdown ---
el("place").textContent = data.place; document.title = `${data.place} · perfmon report`; el("head").textContent = data.head; el("made").textContent = data.made;
el("state").textContent = data.state.text; el("state").classList.add(data.state.level);
if (data.state.parts.length) el("head").textContent += " · " + data.state.parts.join(", ");
for (const [name, value, remark] of data.tiles) {
  const tile = make("div", undefined, "tile"); tile.append(make("span", name), make("b", value), make("span", remark)); el("tiles").append(tile);
}
const verdict = data.verdict, box = el("verdict");
box.classList.add(verdict.level);
box.append(make("span", verdict.badge.toUpperCase(), "badge " + verdict.level), make("strong", " " + verdict.title), make("p", verdict.sentence));
if (verdict.cost) box.append(make("p", verdict.cost + (verdict.chain ? ` · chain: ${verdict.chain}` : ""), "soft"));
if (verdict.why && verdict.why.length) box.append(make("h3", "Why"), reasons(verdict.why));
if (verdict.fix && verdict.fix.length) box.append(make("h3", "Fix"), list(verdict.fix, "ol"));
if (verdict.finding !== null && verdict.finding !== undefined) {
  const to = make("button", "Evidence and timeline"); to.id = "to-finding"; to.onclick = () => { const f = el("finding-" + verdict.finding); f.open = true; f.scrollIntoView(); }; box.append(to);
}
let cause = 0;
for (const entry of data.ledger) {
  entry.colour = entry.kind === "productive" ? "#2e8b57" : entry.kind === "rest" ? "#9aa3ab" : CAUSES[cause++ % CAUSES.length];
  const part = make("span"); part.style.width = 100 * entry.share + "%"; part.style.background = entry.colour; part.title = `${entry.cause} ${pct(entry.share)}`; el("stack").append(part);
}
el("stack").setAttribute("aria-label", data.ledger.map(e => `${e.cause} ${pct(e.share)}`).join(", "));
table("ledger", [
  { name: "cause", value: r => r.cause, show: r => { const s = make("span"), k = make("span", undefined, "key"); k.style.background = r.colour; s.append(k, make("span", r.cause)); return s; }, left: true },
  { name: "time", value: r => r.share, show: r => r.time }, { name: "share", value: r => r.share, show: r => bar(r.share), left: true },
  ...(data.comparison ? [{ name: "in the baseline", value: r => r.before, show: r => bar(r.before), left: true }] : [])], data.ledger);

// --- The time axis, shared by all charts ---
const STEPS = [.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 2592000];
const two = v => String(v).padStart(2, "0");
function span(s) {
  if (s < 60) return (s < 10 ? s.toFixed(s < .1 ? 3 : 1) : s.toFixed(0)) + " s";
  if (s < 3600) return `${Math.floor(s / 60)}m ${two(Math.floor(s % 60))}s`;
  return s < 86400 ? `${Math.floor(s / 3600)}h ${two(Math.floor(s / 60 % 60))}m` : `${Math.floor(s / 86400)}d ${Math.floor(s / 3600 % 24)}h`;
}
function clock(x, step = 1) {
  if (data.axis.samples) return Number.isInteger(x) ? "#" + (x + 1) : "";
  if (data.axis.start === null) return x < 0 ? "" : "+" + span(x);
  const t = new Date((data.axis.start + x) * 1000); if (isNaN(t)) return "+" + span(x);
  const day = `${t.getUTCFullYear()}-${two(t.getUTCMonth() + 1)}-${two(t.getUTCDate())}`;
  const time = `${two(t.getUTCHours())}:${two(t.getUTCMinutes())}`;
  if (step >= 86400 && data.axis.dated) return day;
  return step >= 60 ? time : `${time}:${two(t.getUTCSeconds())}` + (step < 1 ? "." + String(t.getUTCMilliseconds()).padStart(3, "0") : "");
}
const END = Math.max(data.axis.end, ...data.metrics.map(m => m.before && m.before[0].length ? m.before[0][m.before[0].length - 1] : 0));
let view = [0, END], moving = false;
const plots = new Set(), sync = uPlot.sync("time");
function show(from, to) {
  const least = Math.min(.01, END), room = END * .02; let length = Math.min(Math.max(to - from, least), END + 2 * room);
  from = Math.min(Math.max(from, -room), END + room - length); view = [from, from + length];
  moving = true; for (const p of plots) p.setScale("x", { min: view[0], max: view[1] }); moving = false;
  const whole = length >= END;
  if (data.axis.samples) el("range").textContent = `no timestamps: by sample, #${Math.max(1, Math.ceil(from + 1))} to #${Math.floor(Math.min(END, view[1]) + 1)}`; else
  el("range").textContent = whole ? `whole run, ${span(data.axis.end)}` + (END > data.axis.end ? ` (baseline: ${span(END)})` : "") : `${clock(Math.max(0, from))} to ${clock(Math.min(END, view[1]))} (${span(length)} of ${span(END)})`;
  document.body.dataset.from = view[0]; document.body.dataset.to = view[1];
}
const zoom = by => { const middle = (view[0] + view[1]) / 2, half = (view[1] - view[0]) / 2 * by; show(middle - half, middle + half); };
const shift = by => { const d = (view[1] - view[0]) * by; show(view[0] + d, view[1] + d); };
const KEYS = { "+": () => zoom(.5), "=": () => zoom(.5), "-": () => zoom(2), "0": () => show(0, END), ArrowLeft: () => shift(-.25), ArrowRight: () => shift(.25) };
el("zoom-in").onclick = KEYS["+"]; el("zoom-out").onclick = KEYS["-"]; el("zoom-all").onclick = KEYS["0"]; el("earlier").onclick = KEYS.ArrowLeft; el("later").onclick = KEYS.ArrowRight;
document.onkeydown = e => { if (!e.ctrlKey && !e.metaKey && !e.altKey && !(e.target instanceof HTMLInputElement) && KEYS[e.key]) { KEYS[e.key](); e.preventDefault(); } };

const NARROW = window.innerWidth < 600, GUTTER = NARROW ? 92 : 176;
const axes = (size, more) => [
  { stroke: () => css("--soft"), grid: { stroke: () => css("--line"), width: 1 }, ticks: { stroke: () => css("--line"), width: 1 }, space: 90, incrs: STEPS, size, values: (u, at, _, __, step) => at.map(x => x < 0 || x > END ? "" : clock(x, step)) },
  { stroke: () => css("--soft"), grid: { stroke: () => css("--line"), width: 1 }, ticks: { show: false }, size: GUTTER, ...more }];
function plot(into, height, options, values) {
  const p = new uPlot({
    width: into.clientWidth || 800, height, ms: 1, padding: [null, 28, null, null], ...options,
    cursor: { sync: { key: sync.key, setSeries: false }, drag: { x: true, y: false, setScale: true }, y: false, ...options.cursor, bind: { dblclick: () => () => { show(0, END); return null; } } },
    scales: { x: { time: false, range: (u, a, b) => a === null ? view : [a, b] }, ...options.scales },
    hooks: { ...options.hooks, setScale: [(u, key) => { if (key === "x" && !moving) { const { min, max } = u.scales.x; moving = true; queueMicrotask(() => { moving = false; show(min, max); }); } }] },
  }, values, into);
  plots.add(p);
  return p;
}

// --- Lanes: findings first, then spans by kind ---
const lanes = data.lanes.filter(l => l.bars.length), ROW = 22;
lanes.forEach((l, i) => { l.colour = COLOURS[l.level] ?? LANES[i % LANES.length]; });
const short = (text, most) => text.length > most ? text.slice(0, most - 1) + "…" : text;
function drawLanes(u) {
  const g = u.ctx, { left, top, width, height } = u.bbox, row = height / lanes.length; let drawn = 0;
  g.save(); g.beginPath(); g.rect(left, top, width, height); g.clip();
  lanes.forEach((lane, i) => {
    g.fillStyle = lane.colour; g.globalAlpha = lane.level ? .9 : .7;
    for (const [start, end] of lane.bars) {
      if (end < view[0] || start > view[1]) continue;
      const x = u.valToPos(start, "x", true), to = u.valToPos(end, "x", true); g.fillRect(x, top + i * row + row * .15, Math.max(to - x, 1.5 * devicePixelRatio), row * .7); drawn++;
    }
  });
  g.restore(); el("lanes").dataset.bars = drawn;
}
const tip = el("tip");
function pointAt(u) {
  const { left, top } = u.cursor; tip.style.display = "none";
  if (left < 0 || top < 0 || !u.over.matches(":hover")) return;
  const lane = lanes[Math.floor(top / u.over.clientHeight * lanes.length)], x = u.posToVal(left, "x"), near = 4 * (view[1] - view[0]) / u.over.clientWidth; if (!lane) return;
  const bars = lane.bars.filter(([s, e]) => s - near <= x && e + near >= x).sort((a, b) => (a[1] - a[0]) - (b[1] - b[0])); if (!bars.length) return;
  const [start, end, text] = bars[0], r = u.over.getBoundingClientRect();
  tip.textContent = `${clock(start, .1)}  ${short(text, 300)}` + (bars.length > 1 ? `  (and ${bars.length - 1} more)` : "");
  tip.style.display = "block"; tip.style.left = Math.min(r.left + left + 12, innerWidth - 320) + "px"; tip.style.top = r.top + top + 14 + "px";
}
if (lanes.length) {
  plot(el("lanes"), lanes.length * ROW + 44, {
    legend: { show: false }, series: [{}, { show: false }], scales: { y: { range: [0, lanes.length] } }, cursor: { y: false, points: { show: false } },
    axes: axes(34, { grid: { show: false }, splits: () => lanes.map((_, i) => lanes.length - i - .5), values: () => lanes.map(l => short(l.name, NARROW ? 12 : 24)) }),
    hooks: { draw: [drawLanes], setCursor: [pointAt] },
  }, [[0, END], [null, null]]);
} else el("lanes").append(make("p", data.axis.samples ? "No line has a timestamp: metrics are drawn by the number of their sample." : "No line gives a span or a finding a time.", "soft"));

// --- Metrics, the most pressing first ---
const FIRST = 8, held = data.metrics.filter(m => m.course[0].length), charts = el("charts"); let all = false;
const amount = (v, unit) => v === null || v === undefined ? "–" : (Math.abs(v) >= 1e5 || (v !== 0 && Math.abs(v) < 1e-3) ? v.toExponential(2) : String(+v.toPrecision(4))) + (unit ? " " + unit : "");
function chart(m) {
  const into = make("div", undefined, "chart"), title = make("h3", m.name + (m.unit ? ` [${m.unit}]` : ""));
  if (m.level) title.append(make("span", ` ${m.level}` + (m.critical ? `, ${pct(m.critical)} of samples critical` : "") + ` · thresholds: ${m.limits.map(([l, t]) => `${l} ${t}`).join(", ")}`, "level"));
  title.title = m.meaning; into.append(title); into.dataset.metric = m.name; charts.append(into);
  const points = { show: true, size: 4 }, value = (u, v) => amount(v, m.unit);
  const series = [{ label: "time", value: (u, v) => v === null ? "–" : clock(v) }, { label: "this run", stroke: () => m.level === "critical" ? COLOURS.critical : css("--bar"), width: 1.3, spanGaps: true, points: m.course[0].length < 300 || !m.points ? points : { show: false }, paths: m.points ? undefined : () => null, value }];
  let values = m.course;
  if (m.before && m.before[0].length) {
    series.push({ label: "baseline", stroke: "#8a949e", width: 1.2, dash: [5, 4], spanGaps: true, points: m.points ? { show: false } : points, paths: m.points ? undefined : () => null, value });
    values = uPlot.join([m.course, m.before]);
  }
  const limits = u => {
    const g = u.ctx, { left, top, width, height } = u.bbox; g.save(); g.setLineDash([6, 4]);
    for (const [v, level] of m.lines) { const y = u.valToPos(v, "y", true); if (y < top || y > top + height) continue; g.strokeStyle = COLOURS[level]; g.beginPath(); g.moveTo(left, y); g.lineTo(left + width, y); g.stroke(); }
    g.restore();
  };
  plot(into, 130, { series, axes: axes(26, { space: 22, values: (u, at) => at.map(v => amount(v, "")) }), scales: { y: { range: (u, low, high) => low === null ? [0, 1] : uPlot.rangeNum(low, high, .08, false) } }, hooks: { draw: [limits] } }, values);
}
function fill() {
  for (const p of [...plots]) if (charts.contains(p.root)) { plots.delete(p); p.destroy(); }
  charts.replaceChildren();
  const wanted = el("filter").value.trim().toLowerCase(), found = held.filter(m => m.name.toLowerCase().includes(wanted)), shown = all || wanted ? found : found.slice(0, FIRST);
  shown.forEach(chart);
  el("more").hidden = held.length <= FIRST; el("more").textContent = all ? `Show the first ${FIRST}` : `Show all ${held.length} metrics`;
  el("legend").textContent = `${shown.length} of ${held.length} metrics` + (data.comparison ? ", the baseline dashed, from its own start" : "");
  show(...view);
}
el("more").onclick = () => { all = !all; fill(); }; el("filter").oninput = fill;
fill();
onresize = () => { for (const p of plots) p.setSize({ width: p.root.parentElement.clientWidth, height: p.height }); };
matchMedia("(prefers-color-scheme: dark)").onchange = () => { for (const p of plots) p.redraw(); };

// --- Findings ---
data.findings.forEach((f, i) => {
  const d = make("details", undefined, "finding " + f.level), s = make("summary"); d.id = "finding-" + i; d.open = i === 0 || f.level === "critical" && i < 3;
  s.append(make("span", f.level, "badge " + f.level), make("span", " " + f.title)); d.append(s, make("p", f.sentence), make("p", `${f.signature} ${f.identity} · ${f.line}`, "soft"));
  const go = make("button", "Show on the timeline"); go.onclick = () => { const room = Math.max((f.to - f.from) * .1, 2); show(f.from - room, f.to + room); el("lanes").scrollIntoView({ block: "center" }); }; d.append(go);
  if (f.why.length) d.append(make("h3", "Why"), reasons(f.why));
  if (f.fix.length) d.append(make("h3", "Fix"), list(f.fix, "ol"));
  if (f.commands.length) d.append(make("h3", "Commands and options (replace words in capitals)"), make("pre", f.commands.join("\n")));
  if (f.evidence.length) {
    const p = make("pre"); f.evidence.forEach(([where, text]) => p.append(make("b", where), document.createTextNode("  " + text + "\n"))); d.append(make("h3", "Evidence"), p);
  }
  if (f.causes.length) { d.append(make("h3", "Possible causes, the likeliest first")); const l = make("ol"); for (const [name, reasons] of f.causes) { const item = make("li", name); item.append(list(reasons)); l.append(item); } d.append(l); }
  if (f.remarks.length) d.append(list(f.remarks));
  el("findings").append(d);
});
if (!data.findings.length) el("findings").append(make("p", "None."));

// --- Comparison, tables ---
if (data.comparison) {
  const c = data.comparison; el("compared").hidden = false;
  el("change").classList.add({ fixed: "good", improved: "good", regressed: "critical", mixed: "warning" }[c.verdict] ?? "unknown");
  el("change").append(make("strong", c.verdict.toUpperCase()), make("p", c.sentence), make("p", `baseline: ${c.baseline}`, "soft"), make("p", c.found, "soft"));
  table("changes", [["metric", 0], ["verdict", 7], ["before", 2], ["after", 3], ["change", 4], ["of", 1], ["95 % interval", 5], ["samples (effective)", 6]].map(([name, i]) => ({ name, value: r => r[i], left: [0, 1, 7].includes(i) })), c.metrics);
  for (const text of [...c.findings, ...c.criteria, ...c.notes]) el("changed").append(make("li", text));
  el("method").textContent = c.method;
}
table("metrics", [
  { name: "metric", value: r => r.name, show: r => { const s = make("span", r.name); s.title = r.meaning; return s; }, left: true }, { name: "level", value: r => r.critical ?? -1, show: r => r.level + (r.critical ? ` ${pct(r.critical)}` : ""), left: true }, { name: "samples", value: r => r.count, show: r => num(r.count, 0) },
  ...["p50", "p95", "max", "last"].map((name, i) => ({ name, value: r => r.figures[i], show: r => r.texts[i] })), { name: "unit", value: r => r.unit, left: true },
  { name: "good", value: r => r.limits.length ? r.limits[0][1] : "" }, { name: "critical", value: r => r.limits.length ? r.limits[2][1] : "" }], data.metrics);
table("sources", [
  { name: "log", value: r => r.name, left: true }, { name: "format", value: r => r.format, left: true }, { name: "lines", value: r => r.lines, show: r => num(r.lines, 0) }, { name: "recognised", value: r => r.recognised }, { name: "unusable", value: r => r.unusable, show: r => num(r.unusable, 0) }], data.sources);
for (const text of data.caveats) el("caveats").append(make("li", text));
for (const text of data.unseen) el("caveats").append(make("li", "not observed: " + text));
document.body.dataset.ready = "yes";
