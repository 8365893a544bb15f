"use strict";
el("head").textContent = `${num(data.records, 0)} records of ${num(data.groups, 0)} operations in ${num(data.files, 0)} files, formats ${data.formats.join(", ") || "unknown"}`
  + Object.entries(data.job).map(([k, v]) => ` · ${k} ${v}`).join("");
for (const f of data.findings) {
  const box = make("div", undefined, "finding");
  box.append(make("strong", f.title), make("p", f.sentence));
  const list = make("ul"); for (const a of f.advice) list.append(make("li", a)); box.append(list);
  el("findings").append(box);
}
if (!data.findings.length)
  el("findings").append(make("div", data.coverage.complete_ops || data.pairs.length ? "No slow rank and no slow link found." : "No operation has records of all ranks, so slow ranks and links cannot be found.", "finding good"));

const spark = parts => { const s = make("span"); for (const v of parts) { const b = make("span", undefined, "bar"); b.style.width = ".35rem"; b.style.height = Math.max(.05, v) + "rem"; b.style.marginRight = "1px"; b.title = pct(v); s.append(b); } return s; };
table("ranks", [
  { name: "rank", value: r => r.rank }, { name: "host", value: r => r.host, left: true }, { name: "pid", value: r => r.pid },
  { name: "came last in", value: r => r.ops, show: r => num(r.ops, 0) + " ops" }, { name: "caused wait", value: r => r.caused_wait_us, show: r => num(r.caused_wait_us / 1e6, 3) + " s" },
  { name: "origin of", value: r => r.caused_wait_share, show: r => bar(r.caused_wait_share), left: true }, { name: "own lateness", value: r => r.own_lateness, show: r => pct(r.own_lateness) },
  { name: "parts", value: r => Math.max(...r.parts), show: r => spark(r.parts), left: true }], data.ranks);
table("links", [
  { name: "communicator", value: r => r.comm, left: true }, { name: "name", value: r => r.name, left: true }, { name: "type", value: r => r.comm_type, left: true }, { name: "ranks", value: r => r.n_ranks },
  { name: "peers", value: r => r.peers }, { name: "ops", value: r => r.ops, show: r => num(r.ops, 0) }, { name: "ratio", value: r => r.ratio, show: r => num(r.ratio, 2) + "x" },
  { name: "hosts", value: r => r.hosts.join(", "), show: r => { const s = make("span", r.hosts.slice(0, 3).join(", ") + (r.hosts.length > 3 ? ", …" : "")); s.title = r.hosts.join(", "); return s; }, left: true }], data.links);
table("pairs", [
  { name: "ranks", value: r => r.ranks.map(s => `${s.rank} on ${s.host}`).join(" and "), left: true }, { name: "link", value: r => r.link_type, left: true },
  { name: "peers", value: r => r.peers }, { name: "records", value: r => r.ops, show: r => num(r.ops, 0) }, { name: "ratio", value: r => r.ratio, show: r => num(r.ratio, 2) + "x" }], data.pairs);
table("by", [
  { name: "type", value: r => r.comm_type, left: true }, { name: "collective", value: r => r.collective, left: true }, { name: "size", value: r => r.bytes, show: r => size(r.bytes) }, { name: "ops", value: r => r.ops, show: r => num(r.ops, 0) },
  { name: "busbw p5", value: r => r.busbw_p05_gbs, show: r => num(r.busbw_p05_gbs) }, { name: "p50", value: r => r.busbw_p50_gbs, show: r => num(r.busbw_p50_gbs) }, { name: "p95 GB/s", value: r => r.busbw_p95_gbs, show: r => num(r.busbw_p95_gbs) },
  { name: "transfer p50", value: r => r.transfer_p50_us, show: r => r.transfer_p50_us === null ? "-" : num(r.transfer_p50_us, 0) + " µs" }, { name: "waiting", value: r => r.wait_share, show: r => r.wait_share === null ? "-" : pct(r.wait_share) }], data.by);
const remarks = [`${num(data.coverage.complete_ops, 0)} of ${num(data.coverage.ops, 0)} operations of several ranks have records of all of them`, `${num(data.skipped, 0)} lines skipped` + Object.entries(data.lost).map(([k, v]) => `, ${num(v, 0)} ${k}`).join(""), ...data.notes];
if (data.coverage.dropped) remarks.push(`the plugin dropped ${num(data.coverage.dropped, 0)} records`);
for (const r of remarks) el("coverage").append(make("li", r));

// Scatter plot on a canvas: one colour per size, sizes can be switched off, the axes zoom to a dragged range.
const kinds = [...new Set(data.series.map(s => s.comm_type + " " + s.collective))];
const colours = ["#3b6fb6", "#d1701f", "#2e8b57", "#b3261e", "#7d4fb3", "#8a6d3b", "#c2569b", "#5f6b76", "#a6a32c", "#2aa3b0"];
const canvas = el("plot"), tip = el("tip"); let shown = [], hidden = new Set(), view = null, drag = null;
for (const k of kinds) el("kind").append(make("option", k));
function choose() {
  shown = data.series.filter(s => s.comm_type + " " + s.collective === el("kind").value).sort((a, b) => a.bytes - b.bytes); hidden = new Set(); view = null;
  el("sizes").replaceChildren(...shown.map((s, i) => { const l = make("label", undefined, "size"), c = make("input"); c.type = "checkbox"; c.checked = true; c.onchange = () => { c.checked ? hidden.delete(i) : hidden.add(i); draw(); }; const n = make("span", " " + s.size); n.style.color = colours[i % colours.length]; l.append(c, n); return l; }));
  draw();
}
function limits() {
  let x0 = Infinity, x1 = -Infinity, y1 = 0;
  shown.forEach((s, i) => { if (!hidden.has(i)) for (const [x, y] of s.points) { if (x < x0) x0 = x; if (x > x1) x1 = x; if (y > y1) y1 = y; } });
  return x0 > x1 ? { x0: 0, x1: 1, y0: 0, y1: 1 } : { x0, x1: x1 === x0 ? x0 + 1 : x1, y0: 0, y1: y1 * 1.05 || 1 };
}
const edge = { l: 56, r: 12, t: 10, b: 34 };
function scale() { const v = view || limits(), w = canvas.clientWidth, h = canvas.clientHeight; return { v, w, h, X: x => edge.l + (x - v.x0) / (v.x1 - v.x0) * (w - edge.l - edge.r), Y: y => h - edge.b - (y - v.y0) / (v.y1 - v.y0) * (h - edge.t - edge.b), x: p => v.x0 + (p - edge.l) / (w - edge.l - edge.r) * (v.x1 - v.x0), y: p => v.y0 + (h - edge.b - p) / (h - edge.t - edge.b) * (v.y1 - v.y0) }; }
function step(range) { const raw = range / 6, p = 10 ** Math.floor(Math.log10(raw)); return p * [1, 2, 5, 10].find(m => m * p >= raw); }
function draw() {
  const ratio = window.devicePixelRatio || 1, g = canvas.getContext("2d"), s = scale(), css = getComputedStyle(document.body);
  canvas.width = s.w * ratio; canvas.height = s.h * ratio; g.scale(ratio, ratio); g.font = "12px system-ui, sans-serif"; g.fillStyle = css.color; g.strokeStyle = "rgba(128,128,128,.3)";
  const sx = step(s.v.x1 - s.v.x0), sy = step(s.v.y1 - s.v.y0);
  g.textAlign = "center"; for (let x = Math.ceil(s.v.x0 / sx) * sx; x <= s.v.x1; x += sx) { g.beginPath(); g.moveTo(s.X(x), edge.t); g.lineTo(s.X(x), s.h - edge.b); g.stroke(); g.fillText(num(x, sx < 1 ? 1 : 0), s.X(x), s.h - edge.b + 15); }
  g.textAlign = "right"; for (let y = Math.ceil(s.v.y0 / sy) * sy; y <= s.v.y1; y += sy) { g.beginPath(); g.moveTo(edge.l, s.Y(y)); g.lineTo(s.w - edge.r, s.Y(y)); g.stroke(); g.fillText(num(y, sy < 1 ? 2 : 0), edge.l - 5, s.Y(y) + 4); }
  g.textAlign = "center"; g.fillText("operation sequence number", (s.w + edge.l) / 2, s.h - 4); g.save(); g.translate(12, s.h / 2); g.rotate(-Math.PI / 2); g.fillText("mean bus bandwidth (GB/s)", 0, 0); g.restore();
  g.save(); g.beginPath(); g.rect(edge.l, edge.t, s.w - edge.l - edge.r, s.h - edge.t - edge.b); g.clip(); g.globalAlpha = .55; let drawn = 0;
  shown.forEach((one, i) => { if (hidden.has(i)) return; g.fillStyle = colours[i % colours.length]; for (const [x, y] of one.points) { g.beginPath(); g.arc(s.X(x), s.Y(y), 3, 0, 7); g.fill(); drawn += x >= s.v.x0 && x <= s.v.x1 && y >= s.v.y0 && y <= s.v.y1; } });
  if (drag) { g.globalAlpha = .2; g.fillStyle = css.color; g.fillRect(drag.x, drag.y, drag.w, drag.h); }
  g.restore(); canvas.dataset.points = drawn;
}
canvas.onmousedown = e => { drag = { x: e.offsetX, y: e.offsetY, w: 0, h: 0 }; };
canvas.onmousemove = e => {
  if (drag) { drag.w = e.offsetX - drag.x; drag.h = e.offsetY - drag.y; draw(); return; }
  const s = scale(); let best = null, near = 100;
  shown.forEach((one, i) => { if (!hidden.has(i)) for (const [x, y] of one.points) { const d = (s.X(x) - e.offsetX) ** 2 + (s.Y(y) - e.offsetY) ** 2; if (d < near) { near = d; best = [one, x, y]; } } });
  tip.style.display = best ? "block" : "none";
  if (best) { tip.textContent = `${best[0].size}, operation ${best[1]}: ${num(best[2], 2)} GB/s`; tip.style.left = e.clientX + 12 + "px"; tip.style.top = e.clientY + 12 + "px"; }
};
canvas.onmouseleave = () => { tip.style.display = "none"; };
window.onmouseup = () => {
  if (!drag) return; const d = drag, s = scale(); drag = null;
  if (Math.abs(d.w) > 8 && Math.abs(d.h) > 8) view = { x0: s.x(Math.min(d.x, d.x + d.w)), x1: s.x(Math.max(d.x, d.x + d.w)), y0: s.y(Math.max(d.y, d.y + d.h)), y1: s.y(Math.min(d.y, d.y + d.h)) };
  draw();
};
canvas.ondblclick = el("reset").onclick = () => { view = null; draw(); };
el("kind").onchange = choose; window.onresize = draw; choose(); document.body.dataset.ready = "yes";
