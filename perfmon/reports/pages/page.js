"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const el = id => document.getElementById(id);
const make = (tag, text, cls) => { const e = document.createElement(tag); if (text !== undefined) e.textContent = text; if (cls) e.className = cls; return e; };
const num = (v, d = 1) => v === null || v === undefined ? "" : v.toLocaleString("en-US", { maximumFractionDigits: d, minimumFractionDigits: d });
const pct = v => v === null || v === undefined ? "" : num(100 * v, 1) + " %";
const size = b => { let u = ["B", "KiB", "MiB", "GiB", "TiB"], i = 0; while (b >= 1024 && i < 4) { b /= 1024; i++; } return num(b, b % 1 ? 1 : 0) + " " + u[i]; };

// Tables: a click on a heading sorts by it.
function table(id, columns, rows) {
  const t = el(id), head = make("tr"), body = make("tbody"); let by = -1, up = false;
  columns.forEach((c, i) => { const th = make("th", c.name, c.left ? "left" : ""); th.onclick = () => { up = by === i ? !up : !!c.left; by = i; fill(); }; head.append(th); });
  const thead = make("thead"); thead.append(head); t.append(thead, body);
  function fill() {
    const order = by < 0 ? rows : [...rows].sort((a, b) => { const x = columns[by].value(a), y = columns[by].value(b); return (x < y ? -1 : x > y ? 1 : 0) * (up ? 1 : -1); });
    body.replaceChildren(...order.map(r => { const tr = make("tr"); for (const c of columns) { const td = make("td", undefined, c.left ? "left" : ""); const s = c.show ? c.show(r) : c.value(r); td.append(s instanceof Node ? s : make("span", s ?? "")); tr.append(td); } return tr; }));
  }
  fill();
}
const bar = v => { const s = make("span", " "), b = make("span", undefined, "bar"); b.style.width = Math.max(0, Math.min(1, v)) * 8 + "rem"; s.append(b, make("span", " " + pct(v))); return s; };
