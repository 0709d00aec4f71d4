// Curves: each series is {name, kind, points: [[step, value], ...]}.

// For each figure, what marks a step in it; undefined for none.
const stepMarkers = [];

function ticks(low, high, isLog) {
  const found = [];
  if (isLog) {
    const first = Math.ceil(Math.log10(low) - 1e-9);
    const last = Math.floor(Math.log10(high) + 1e-9);
    for (let e = first; e <= last; e += Math.ceil((last - first + 1) / 5)) found.push(10 ** e);
    return found;
  }
  const ten = 10 ** Math.floor(Math.log10((high - low) / 3));
  const step = ten * [1, 2, 5, 10].find(k => k * ten >= (high - low) / 4);
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; ++k) found.push(k * step);
  return found;
}

// The axis of these values: shares reach from 0 to 1, other values as far as they go, in decades if they span two.
function axisOf(values, kind) {
  let low = Math.min(...values);
  let high = Math.max(...values);
  if (kind === 'share') return {low: 0, high: 1, isLog: false};
  const isLog = low > 0 && high / low >= 100 && kind !== 'fromZero';
  if (kind === 'fromZero' || low === high) {
    low = Math.min(low, 0);
    high = Math.max(high, low === 0 && high === 0 ? 1 : 0);
  }
  return {low, high, isLog};
}

// `kind` is 'share', 'fromZero' or nothing.
function drawCurves(title, allSeries, kind) {
  const finite = allSeries.map(s => ({...s, points: s.points.filter(p => Number.isFinite(p[1]))}));
  const series = finite.filter(s => s.points.length);
  if (!series.length) return;
  const steps = series.flatMap(s => s.points.map(p => p[0]));
  const {low, high, isLog} = axisOf(series.flatMap(s => s.points.map(p => p[1])), kind);
  const write = v => kind === 'share' ? percent(v) : short(v);
  const first = Math.min(...steps);
  const last = Math.max(...steps);
  const size = {w: 300, h: 160, left: 48, right: 8, bottom: 20, top: 8};
  const height = size.h - size.bottom - size.top;
  const place = v => isLog ? Math.log(v / low) / Math.log(high / low) : (v - low) / (high - low);
  const span = Math.max(1, last - first);
  const x = step => size.left + (step - first) / span * (size.w - size.left - size.right);
  const y = v => size.h - size.bottom - place(v) * height;

  const figure = make($('curves'), 'figure');
  const caption = make(figure, 'figcaption', {}, title + (isLog ? ' (log)' : ''));
  const shown = series.map(s => {
    const entry = make(caption, 'span', {class: 'entry'});
    make(entry, 'span', {class: s.kind}, `\u25cf ${s.name} `);
    return make(entry, 'b');
  });
  const svg = make(figure, 'svg', {viewBox: `0 0 ${size.w} ${size.h}`, width: '100%', role: 'img', 'aria-label': title});
  for (const v of ticks(low, high, isLog)) {
    make(svg, 'line', {class: 'axis', x1: size.left, x2: size.w - size.right, y1: y(v), y2: y(v)});
    make(svg, 'text', {class: 'tick', x: size.left - 4, y: y(v) + 4, 'text-anchor': 'end'}, write(v));
  }
  if (last > first) make(svg, 'text', {x: size.left, y: size.h - 4}, first);
  make(svg, 'text', {x: size.w - size.right, y: size.h - 4, 'text-anchor': 'end'}, 'step ' + last);
  for (const s of series) {
    const points = s.points.map(p => x(p[0]).toFixed(1) + ',' + y(p[1]).toFixed(1)).join(' ');
    const group = make(svg, 'g', {class: s.kind});
    make(group, 'polyline', {class: 'curve', points});
    if (s.points.length === 1) make(group, 'circle', {class: 'curve', cx: x(s.points[0][0]), cy: y(s.points[0][1]), r: 2.5});
  }
  // The last values, or those at the step that the pointer is on.
  const cursor = make(svg, 'line', {class: 'axis', y1: size.top, y2: size.h - size.bottom, visibility: 'hidden'});
  const show = (step, isPointed) => series.forEach((s, i) => {
    const nearest = s.points.reduce((a, b) => Math.abs(b[0] - step) <= Math.abs(a[0] - step) ? b : a);
    shown[i].textContent = write(nearest[1]) + (isPointed ? ` (step ${nearest[0]})` : '');
  });
  const mark = step => {
    cursor.setAttribute('x1', x(step));
    cursor.setAttribute('x2', x(step));
    cursor.setAttribute('visibility', 'visible');
    show(step, true);
  };
  const unmark = () => {
    cursor.setAttribute('visibility', 'hidden');
    show(last);
  };
  svg.addEventListener('pointermove', e => {
    const box = svg.getBoundingClientRect();
    const at = (e.clientX - box.left) / box.width * size.w;
    const share = (at - size.left) / (size.w - size.left - size.right);
    mark(Math.max(first, Math.min(last, first + share * span)));
  });
  svg.addEventListener('pointerleave', unmark);
  stepMarkers.push(step => step === undefined ? unmark() : mark(step));
  show(last);
}

// How the axis of a measure is drawn: a share of 1, per cent, or any number.
function kindOf(name) {
  if (/accuracy|exact/.test(name)) return 'share';
  return /bleu/.test(name) ? 'fromZero' : undefined;
}

// "val_token_accuracy" as people say it.
function nameOf(key) {
  return key.replace(/^val_/, '').replace(/_/g, ' ');
}

// "token accuracy 62.6 %"
function measureText(key, value) {
  return `${nameOf(key)} ${kindOf(key) === 'share' ? percent(value) : short(value)}`;
}

// All curves of a training.
function drawTraining(data) {
  const column = i => data.steps.map(s => [s[0], s[i]]);
  const course = data.evaluations.filter(e => !('mean_of' in e));  // the mean of several models is no step of it
  const measure = key => course.filter(e => key in e).map(e => [e.step, e[key]]);
  const training = i => ({name: 'training', kind: 'a', points: column(i)});
  const validation = key => ({name: 'validation', kind: 'b', points: measure(key)});
  const measured = [...new Set(course.flatMap(e => Object.keys(e)))];
  const sameAsTraining = measured.find(key => /^val_(token_)?accuracy$/.test(key));
  drawCurves('loss', [training(1), validation('val_loss')]);
  drawCurves('accuracy', [training(2), validation(sameAsTraining)], 'share');
  for (const key of measured) {
    if (['step', 'val_loss', sameAsTraining].includes(key)) continue;
    drawCurves(nameOf(key), [validation(key)], kindOf(key));
  }
  drawCurves('learning rate', [training(3)], 'fromZero');
  drawCurves('gradient norm', [training(4)]);
}
