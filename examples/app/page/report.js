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
const short = v => Math.abs(v) >= 10000 || (v !== 0 && Math.abs(v) < 0.001) ? v.toExponential(1) : String(+v.toPrecision(3));

// Lines that begin with blanks are examples and stay lines; the others are joined.
const about = data.about.split('\n').map((line, i, all) =>
  (i === 0 ? '' : line[0] === ' ' || all[i - 1][0] === ' ' ? '\n' : ' ') + line).join('');
$('about').textContent = about + (data.finished ? '' : ' Training is still running; load the page again to see more.');
$('result').textContent = Object.entries(data.result).map(([key, value]) => `${key} ${short(value)}`).join(', ');
$('model').textContent = data.model;
$('command').textContent = data.command;
$('options').textContent = JSON.stringify(data.options, null, 2);

// ---- curves: each series is {name, kind, points: [[step, value], ...]}
function ticks(low, high, isLog) {
  const found = [];
  if (isLog) {
    const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9);
    for (let e = first; e <= last; e += Math.ceil((last - first + 1) / 5)) found.push(10 ** e);
  } else {
    const ten = 10 ** Math.floor(Math.log10((high - low) / 3));
    const step = ten * [1, 2, 5, 10].find(k => k * ten >= (high - low) / 4);
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; ++k) found.push(k * step);
  }
  return found;
}
function drawCurves(title, series, fromZero) {
  series = series.map(s => ({...s, points: s.points.filter(p => Number.isFinite(p[1]))})).filter(s => s.points.length);
  if (!series.length) return;
  const values = series.flatMap(s => s.points.map(p => p[1])), steps = series.flatMap(s => s.points.map(p => p[0]));
  let low = Math.min(...values), high = Math.max(...values);
  const isLog = low > 0 && high / low >= 100 && !fromZero;
  if (fromZero || low === high) { low = Math.min(low, 0); high = Math.max(high, low === 0 && high === 0 ? 1 : 0); }
  const first = Math.min(...steps), last = Math.max(...steps, first + 1);
  const w = 300, h = 160, left = 48, right = 8, bottom = 20, top = 8;
  const place = v => isLog ? Math.log(v / low) / Math.log(high / low) : (v - low) / (high - low);
  const x = s => left + (s - first) / (last - first) * (w - left - right), y = v => h - bottom - place(v) * (h - bottom - top);

  const figure = make($('curves'), 'figure');
  const caption = make(figure, 'figcaption', {}, title + (isLog ? ' (log)' : ''));
  const shown = series.map(s => {
    const entry = make(caption, 'span', {class: 'entry'});
    make(entry, 'span', {class: s.kind}, `\u25cf ${s.name} `);
    return make(entry, 'b');
  });
  const svg = make(figure, 'svg', {viewBox: `0 0 ${w} ${h}`, width: '100%', role: 'img', 'aria-label': title});
  for (const v of ticks(low, high, isLog)) {
    make(svg, 'line', {class: 'axis', x1: left, x2: w - right, y1: y(v), y2: y(v)});
    make(svg, 'text', {class: 'tick', x: left - 4, y: y(v) + 4, 'text-anchor': 'end'}, short(v));
  }
  make(svg, 'text', {x: left, y: h - 4}, first);
  make(svg, 'text', {x: w - right, y: h - 4, 'text-anchor': 'end'}, 'step ' + last);
  for (const s of series) {
    const points = s.points.map(p => x(p[0]).toFixed(1) + ',' + y(p[1]).toFixed(1)).join(' ');
    const group = make(svg, 'g', {class: s.kind});
    make(group, 'polyline', {class: 'curve', points});
    if (s.points.length === 1) make(group, 'circle', {class: 'curve', cx: x(s.points[0][0]), cy: y(s.points[0][1]), r: 2.5});
  }
  // The last values, or those at the step that the pointer is on.
  const cursor = make(svg, 'line', {class: 'axis', y1: top, y2: h - bottom, visibility: 'hidden'});
  const show = (step, isPointed) => series.forEach((s, i) => {
    const nearest = s.points.reduce((a, b) => Math.abs(b[0] - step) <= Math.abs(a[0] - step) ? b : a);
    shown[i].textContent = short(nearest[1]) + (isPointed ? ` (step ${nearest[0]})` : '');
  });
  svg.addEventListener('pointermove', e => {
    const box = svg.getBoundingClientRect(), at = (e.clientX - box.left) / box.width * w;
    const step = Math.max(first, Math.min(last, first + (at - left) / (w - left - right) * (last - first)));
    for (const end of ['x1', 'x2']) cursor.setAttribute(end, x(step));
    cursor.setAttribute('visibility', 'visible');
    show(step, true);
  });
  svg.addEventListener('pointerleave', () => { cursor.setAttribute('visibility', 'hidden'); show(last); });
  show(last);
}
const column = i => data.steps.map(s => [s[0], s[i]]);
const course = data.evaluations.filter(e => !('mean_of' in e));  // the mean of several models is no step of it
const measure = key => course.filter(e => key in e).map(e => [e.step, e[key]]);
drawCurves('loss', [{name: 'training', kind: 'a', points: column(1)}, {name: 'validation', kind: 'b', points: measure('val_loss')}]);
const measured = [...new Set(course.flatMap(e => Object.keys(e)))];
const sameAsTraining = measured.find(key => /^val_(token_)?accuracy$/.test(key));
drawCurves('accuracy', [{name: 'training', kind: 'a', points: column(2)},
                        {name: 'validation', kind: 'b', points: measure(sameAsTraining)}]);
for (const key of measured)
  if (!['step', 'val_loss', sameAsTraining].includes(key))
    drawCurves(key.replace(/^val_/, '').replace(/_/g, ' '), [{name: 'validation', kind: 'b', points: measure(key)}]);
drawCurves('learning rate', [{name: 'training', kind: 'a', points: column(3)}], true);
drawCurves('gradient norm', [{name: 'training', kind: 'a', points: column(4)}]);

// ---- samples
const table = $('samples');
const judged = data.samples.some(s => s.expected);
const head = make(make(table, 'thead'), 'tr');
for (const title of judged ? ['input', 'answer', 'expected', ''] : ['prompt', 'continuation']) make(head, 'th', {}, title);
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
let at = null;  // the marked square
let pointer = '';  // where on the screen it last entered a square
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
  document.querySelectorAll('#heat .at').forEach(e => e.remove());
  const square = document.querySelector(`#heat rect.c[data-i="${at[0]}"][data-j="${at[1]}"]`);
  const mark = make($('heat'), 'rect', {'data-i': at[0], 'data-j': at[1], class: 'at'});
  for (const name of ['x', 'y', 'width', 'height']) mark.setAttribute(name, square.getAttribute(name));
  $('weight').textContent = `${m.queries[at[0]]} looks at ${m.keys[at[1]]}: ${weightAt(m, at[0], at[1]).toFixed(3)}`;
}
function drawMap() {
  const m = currentMap(), svg = $('heat'), cell = 24, most = Math.max(...m.weights) || 1;
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
      const box = {x: left + j * cell, y: top + i * cell, width: cell, height: cell}, weight = weightAt(m, i, j);
      make(svg, 'rect', {...box, class: 'w', 'data-weight': weight, 'fill-opacity': (weight / most).toFixed(4)});
      const cover = make(svg, 'rect', {...box, class: 'c', 'data-i': i, 'data-j': j});
      cover.addEventListener('mouseenter', e => {
        const place = e.screenX + ',' + e.screenY;
        if (place !== pointer) point(i, j);  // not where a square is drawn anew under a pointer at rest
        pointer = place;
      });
    });
  });
  $('most').textContent = `${most.toFixed(3)}, the largest weight of ${m.name}`;
  document.querySelectorAll('#samples tbody tr').forEach(r => r.classList.toggle('chosen', r.dataset.sample === $('sample').value));
  if (at) point(...at);
}
if (data.samples.some(s => s.maps.length)) {
  fill($('sample'), data.samples.map((s, i) => `${i + 1}: ${s.input.slice(0, 40)}`));
  fillMaps();
  $('sample').addEventListener('change', fillMaps);
  $('map').addEventListener('change', fillHeads);
  $('head').addEventListener('change', drawMap);
  $('heat').addEventListener('keydown', e => {
    const step = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[e.key];
    if (step) { e.preventDefault(); point((at || [0, 0])[0] + step[0], (at || [0, 0])[1] + step[1]); }
  });
} else {
  $('attention').remove();
}
