// The style and the script of the report page: plain CSS and JavaScript, no libraries.
#include "app/report.h"

namespace examples {

const char* const kReportStyle = R"css(
:root{--back:#fff;--text:#1d2126;--faint:#6b7280;--line:#d5d9df;--panel:#f5f6f8;--a:#0b61a4;--b:#c2410c;--good:#15803d;--bad:#b91c1c}
@media(prefers-color-scheme:dark){:root{--back:#14161a;--text:#e3e6ea;--faint:#98a1ad;--line:#3a4049;--panel:#1d2026;
--a:#6db3f2;--b:#fb923c;--good:#4ade80;--bad:#f87171}}
body{margin:0;background:var(--back);color:var(--text);font:16px/1.45 system-ui,sans-serif}
main{max-width:60rem;margin:0 auto;padding:1rem}
h1{font-size:1.5rem;margin:.5rem 0}h2{font-size:1.1rem;margin:1.6rem 0 .5rem}
#about{color:var(--faint);white-space:pre-line}
#curves{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,17rem),1fr));gap:.8rem}
figure{margin:0;background:var(--panel);border-radius:.5rem;padding:.6rem}
figcaption{font-size:.85rem}figcaption b{font-variant-numeric:tabular-nums}
svg text{fill:var(--faint);font-size:11px;font-family:system-ui,sans-serif}
.axis{stroke:var(--line)}.curve{fill:none;stroke:var(--a);stroke-width:1.6}.curve.test{stroke:var(--b)}
table{border-collapse:collapse;width:100%;font-size:.9rem}
td,th{text-align:left;padding:.25rem .6rem .25rem 0;border-bottom:1px solid var(--line);overflow-wrap:anywhere}
.good{color:var(--good)}.bad{color:var(--bad)}td.verdict{white-space:nowrap}
tbody tr{cursor:pointer}tbody tr:hover,tbody tr.chosen{background:var(--panel)}
.controls{display:flex;flex-wrap:wrap;gap:.5rem 1rem}
select{font:inherit;color:inherit;background:var(--panel);border:1px solid var(--line);border-radius:.3rem;padding:.2rem .4rem;max-width:100%}
.scroll,pre{overflow-x:auto}pre{background:var(--panel);border-radius:.5rem;padding:.6rem;font-size:.8rem}
#heat rect.w{fill:var(--a)}#heat rect.c{fill:transparent;stroke:var(--line)}#heat rect.at{stroke:var(--b);stroke-width:2}
#heat text{fill:var(--text)}#weight{min-height:1.4em;margin:.5rem 0}
)css";

const char* const kReportScript = R"js(
'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const $ = id => document.getElementById(id);
const svgNamespace = 'http://www.w3.org/2000/svg';
function make(parent, name, attributes, text) {
  const svg = parent.namespaceURI === svgNamespace || name === 'svg';
  const e = svg ? document.createElementNS(svgNamespace, name) : document.createElement(name);
  for (const key in attributes || {}) e.setAttribute(key, attributes[key]);
  if (text !== undefined) e.textContent = text;
  parent.appendChild(e);
  return e;
}
const short = v => Math.abs(v) >= 1000 || (v !== 0 && Math.abs(v) < 0.001) ? v.toExponential(1) : String(+v.toPrecision(3));

// Lines that begin with blanks are examples and stay lines; the others are joined.
const about = data.about.split('\n').map((line, i, all) =>
  (i === 0 ? '' : line[0] === ' ' || all[i - 1][0] === ' ' ? '\n' : ' ') + line).join('');
$('about').textContent = about + (data.finished ? '' : ' Training is still running; load the page again to see more.');
$('summary').textContent = data.summary;
$('command').textContent = data.command;
$('options').textContent = JSON.stringify(data.options, null, 2);

// ---- curves: points are [step, value]
function drawCurve(title, points, kind) {
  points = points.filter(p => Number.isFinite(p[1]));
  if (!points.length) return;
  const figure = make($('curves'), 'figure');
  const caption = make(figure, 'figcaption', {}, title + ' ');
  make(caption, 'b', {}, short(points[points.length - 1][1]));
  const w = 300, h = 150, left = 52, bottom = 20, top = 8;
  const svg = make(figure, 'svg', {viewBox: `0 0 ${w} ${h}`, width: '100%', role: 'img', 'aria-label': title});
  let low = Math.min(...points.map(p => p[1])), high = Math.max(...points.map(p => p[1]));
  if (low === high) { low -= 0.5; high += 0.5; }
  const first = points[0][0], last = Math.max(points[points.length - 1][0], first + 1);
  const x = s => left + (s - first) / (last - first) * (w - left - 6);
  const y = v => h - bottom - (v - low) / (high - low) * (h - bottom - top);
  for (const v of [low, high]) {
    make(svg, 'line', {class: 'axis', x1: left, x2: w, y1: y(v), y2: y(v)});
    make(svg, 'text', {x: left - 4, y: y(v) + 4, 'text-anchor': 'end'}, short(v));
  }
  make(svg, 'text', {x: left, y: h - 4}, first);
  make(svg, 'text', {x: w - 4, y: h - 4, 'text-anchor': 'end'}, 'step ' + last);
  const path = make(svg, 'polyline', {class: 'curve ' + kind, points: points.map(p => x(p[0]).toFixed(1) + ',' + y(p[1]).toFixed(1)).join(' ')});
  make(path, 'title', {}, title);
  if (points.length === 1) make(svg, 'circle', {cx: x(first), cy: y(points[0][1]), r: 3});
}
['loss', 'accuracy', 'learning rate', 'gradient norm'].forEach((title, i) =>
  drawCurve('training: ' + title, data.steps.map(s => [s[0], s[i + 1]]), ''));
const measured = new Set(data.evaluations.flatMap(e => Object.keys(e)));
measured.delete('step');
for (const key of measured)
  drawCurve(key.replace(/_/g, ' '), data.evaluations.filter(e => key in e).map(e => [e.step, e[key]]), 'test');

// ---- samples
const table = $('samples');
const judged = data.samples.some(s => s.expected);
const head = make(make(table, 'thead'), 'tr');
for (const title of judged ? ['input', 'answer', 'expected', ''] : ['prompt', 'continued']) make(head, 'th', {}, title);
const body = make(table, 'tbody');
data.samples.forEach((s, i) => {
  const row = make(body, 'tr', {'data-sample': i});
  make(row, 'td', {}, s.input);
  const right = s.output === s.expected;
  make(row, 'td', judged ? {class: right ? 'good' : 'bad'} : {}, s.output);
  if (judged) {
    make(row, 'td', {}, s.expected);
    make(row, 'td', {class: 'verdict ' + (right ? 'good' : 'bad')}, right ? '✓ right' : '✗ wrong');
  }
  row.addEventListener('click', () => { $('sample').value = i; fillMaps(); });
});

// ---- attention
function fill(select, names) {
  const before = select.value;
  select.textContent = '';
  names.forEach((name, i) => make(select, 'option', {value: i}, name));
  if (before !== '' && +before < names.length) select.value = before;
}
let at = [0, 0];
function currentMap() { return data.samples[+$('sample').value].maps[+$('map').value]; }
function fillMaps() {
  fill($('map'), data.samples[+$('sample').value].maps.map(m => m.name));
  fillHeads();
}
function fillHeads() {
  fill($('head'), Array.from({length: currentMap().heads}, (_, h) => String(h)));
  drawMap();
}
function weightAt(m, i, j) { return m.weights[((+$('head').value) * m.queries.length + i) * m.keys.length + j]; }
function point(i, j) {
  const m = currentMap();
  at = [Math.max(0, Math.min(m.queries.length - 1, i)), Math.max(0, Math.min(m.keys.length - 1, j))];
  document.querySelectorAll('#heat .at').forEach(e => e.classList.remove('at'));
  document.querySelector(`#heat rect.c[data-i="${at[0]}"][data-j="${at[1]}"]`).classList.add('at');
  $('weight').textContent = `${m.queries[at[0]]} looks at ${m.keys[at[1]]}: ${weightAt(m, at[0], at[1]).toFixed(3)}`;
}
function drawMap() {
  const m = currentMap(), svg = $('heat'), cell = 24;
  const longest = labels => Math.max(...labels.map(l => l.length), 1);
  const left = 14 + 7 * longest(m.queries), top = 14 + 6 * longest(m.keys);
  const w = left + cell * m.keys.length + 50, h = top + cell * m.queries.length + 4;
  svg.textContent = '';
  svg.setAttribute('viewBox', `0 0 ${w} ${h}`);
  svg.setAttribute('width', w);
  svg.setAttribute('height', h);
  m.keys.forEach((key, j) => make(svg, 'text', {transform: `translate(${left + j * cell + 14},${top - 5}) rotate(-45)`}, key));
  m.queries.forEach((query, i) => {
    make(svg, 'text', {x: left - 6, y: top + i * cell + 16, 'text-anchor': 'end'}, query);
    m.keys.forEach((_, j) => {
      const box = {x: left + j * cell, y: top + i * cell, width: cell, height: cell};
      make(svg, 'rect', {...box, class: 'w', 'fill-opacity': weightAt(m, i, j)});
      const cover = make(svg, 'rect', {...box, class: 'c', 'data-i': i, 'data-j': j});
      cover.addEventListener('mouseenter', () => point(i, j));
    });
  });
  document.querySelectorAll('#samples tbody tr').forEach(r => r.classList.toggle('chosen', r.dataset.sample === $('sample').value));
}
if (data.samples.some(s => s.maps.length)) {
  fill($('sample'), data.samples.map((s, i) => `${i + 1}: ${s.input.slice(0, 40)}`));
  fillMaps();
  $('sample').addEventListener('change', fillMaps);
  $('map').addEventListener('change', fillHeads);
  $('head').addEventListener('change', drawMap);
  $('heat').addEventListener('keydown', e => {
    const step = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[e.key];
    if (step) { e.preventDefault(); point(at[0] + step[0], at[1] + step[1]); }
  });
} else {
  $('attention').remove();
}
)js";

}  // namespace examples
