// The large map of one head: {name, queries, keys, heads: [matrix of weights], isMasked(i, j)}.

// As the page's data have it, {name, heads: number, queries, keys, weights}. Nothing above the diagonal is a mask.
function mapOf(stored) {
  const {name, queries, keys} = stored;
  const size = queries.length * keys.length;
  const weightsOf = h => matrixOf(stored.weights.slice(h * size, (h + 1) * size), keys.length);
  const heads = Array.from({length: stored.heads}, (_, h) => weightsOf(h));
  const isAbove = (i, j) => j > i;
  const above = heads[0].values.filter((_, at) => isAbove(Math.floor(at / keys.length), at % keys.length));
  const isCausal = queries.length === keys.length && above.length > 0 && above.every(w => w === 0);
  return {name, queries, keys, heads, isMasked: (i, j) => isCausal && isAbove(i, j)};
}

class AttentionView {
  // `show(map, head)` is called when another one is chosen.
  constructor(show) {
    this.maps = [];
    this.at = null;     // the marked square
    this.pointer = '';  // where on the screen it last entered a square
    this.show = show;
    $('map').addEventListener('change', () => this.fillHeads());
    $('head').addEventListener('change', () => this.draw());
    $('heat').addEventListener('keydown', e => this.move(e));
  }
  get map() {
    return this.maps[+$('map').value];
  }
  get head() {
    return +$('head').value;
  }
  setMaps(maps) {
    this.maps = maps.map(map => ({...map, queries: numbered(map.queries), keys: numbered(map.keys)}));
    fill($('map'), maps.map(m => m.name));
    this.fillHeads();
  }
  fillHeads() {
    fill($('head'), this.map.heads.map((_, h) => String(h)));
    this.draw();
  }
  choose(name, head) {
    $('map').value = this.maps.findIndex(m => m.name === name);
    this.fillHeads();
    $('head').value = head;
    this.draw();
  }
  move(event) {
    const step = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[event.key];
    if (!step) return;
    event.preventDefault();
    const [i, j] = this.at || [0, 0];
    this.point(i + step[0], j + step[1]);
  }
  // Marks a square, within the map, and reads it out.
  point(i, j) {
    const {map, head} = this;
    const within = (n, end) => Math.max(0, Math.min(end - 1, n));
    this.at = [within(i, map.queries.length), within(j, map.keys.length)];
    [i, j] = this.at;
    document.querySelectorAll('#heat .at').forEach(e => e.remove());
    const square = document.querySelector(`#heat rect.c[data-i="${i}"][data-j="${j}"]`);
    const mark = make($('heat'), 'rect', {'data-i': i, 'data-j': j, class: 'at'});
    for (const name of ['x', 'y', 'width', 'height']) mark.setAttribute(name, square.getAttribute(name));
    const masked = map.isMasked(i, j) ? ' (masked)' : '';
    $('weight').textContent = `${map.queries[i]} looks at ${map.keys[j]}: ${map.heads[head].at(i, j).toFixed(3)}${masked}`;
    drawLines(map, map.heads[head], i);
  }
  draw() {
    const {map, head} = this;
    const most = Math.max(...map.heads.map(weights => weights.values.reduce((a, b) => Math.max(a, b), 0))) || 1;
    drawMap(map, map.heads[head], most, (i, j, e) => {
      const place = e.screenX + ',' + e.screenY;
      if (place !== this.pointer) this.point(i, j);  // not where a square is drawn anew under a pointer at rest
      this.pointer = place;
    });
    $('most').textContent = `${most.toFixed(3)}, the largest weight of ${map.name}`;
    $('masked').hidden = !map.isMasked(0, 1);
    drawLines(map, map.heads[head], -1);
    if (this.at) this.point(...this.at);
    this.show(map, head);
  }
}

function longest(labels) {
  return Math.max(...labels.map(l => l.length), 1);
}

function drawMap(map, weights, most, entered) {
  const svg = $('heat');
  const cell = 24;
  const left = 14 + 7 * longest(map.queries);
  const top = 14 + 6 * longest(map.keys);
  const w = left + cell * map.keys.length + 50;
  const h = top + cell * map.queries.length + 4;
  svg.textContent = '';
  for (const [name, value] of [['viewBox', `0 0 ${w} ${h}`], ['width', w], ['height', h]]) svg.setAttribute(name, value);
  svg.setAttribute('aria-label', `attention weights of ${map.name}, ${map.queries.length} rows, ${map.keys.length} columns`);
  const hatch = make(make(svg, 'defs'), 'pattern', {id: 'hatch', width: 6, height: 6, patternUnits: 'userSpaceOnUse'});
  make(hatch, 'path', {class: 'hatch', d: 'M0 6L6 0'});
  map.keys.forEach((key, j) => make(svg, 'text', {transform: `translate(${left + j * cell + 14},${top - 5}) rotate(-45)`}, key));
  map.queries.forEach((query, i) => {
    make(svg, 'text', {x: left - 6, y: top + i * cell + 16, 'text-anchor': 'end'}, query);
    map.keys.forEach((_, j) => {
      const box = {x: left + j * cell, y: top + i * cell, width: cell, height: cell};
      const weight = weights.at(i, j);
      make(svg, 'rect', {...box, class: 'w', 'data-weight': weight, 'fill-opacity': (weight / most).toFixed(4)});
      const cover = make(svg, 'rect', {...box, class: map.isMasked(i, j) ? 'c masked' : 'c', 'data-i': i, 'data-j': j});
      cover.addEventListener('mouseenter', e => entered(i, j, e));
    });
  });
}

// Two columns of words, and lines from each to what it looks at; those of `row`, if there is one, alone.
function drawLines(map, weights, row) {
  const svg = $('lines');
  const line = 22;
  const left = 14 + 7 * longest(map.queries);
  const gap = 110;
  const w = left + gap + 14 + 7 * longest(map.keys);
  const h = line * Math.max(map.queries.length, map.keys.length) + 8;
  const y = i => line * i + 16;
  svg.textContent = '';
  for (const [name, value] of [['viewBox', `0 0 ${w} ${h}`], ['width', w], ['height', h]]) svg.setAttribute(name, value);
  const isChosen = i => row < 0 || i === row;
  map.queries.forEach((query, i) => {
    make(svg, 'text', {x: left - 6, y: y(i) + 4, 'text-anchor': 'end', class: isChosen(i) ? '' : 'faint'}, query);
    map.keys.forEach((_, j) => {
      const weight = weights.at(i, j);
      if (!isChosen(i) || weight < 0.02) return;
      const opacity = weight.toFixed(3);
      make(svg, 'line', {x1: left, x2: left + gap, y1: y(i), y2: y(j), 'stroke-opacity': opacity, 'stroke-width': 1 + 3 * weight});
    });
  });
  map.keys.forEach((key, j) => make(svg, 'text', {x: left + gap + 6, y: y(j) + 4}, key));
}
