// Step by step: the numbers of each box, and for each number the sum that made it.

// What a step is for, by its title.
const meanings = {
  ids: 'Each token as its number in the vocabulary.',
  features: 'What is known of each position, one column for each feature.',
  embedding: 'For each id a row of a learned table.',
  'input map': 'Each row times a learned matrix.',
  '+ position': 'A vector for the place is added; without it, the order of the tokens would be unknown.',
  Q: 'Queries: what each row looks for. Row times matrix, the columns of one head after those of another.',
  K: 'Keys: what each row can be found by.',
  V: 'Values: what each row gives to those that look at it.',
  'Q Kᵀ': 'Each query times each key: one score for each pair.',
  'divided by √d': 'Sums of d products grow with √d; divided by it, their size does not depend on d.',
  masked: 'A position that may not be seen gets −∞, so that softmax makes it 0.',
  softmax: 'e to the power of each score, divided by the sum of its row: shares that sum to 1.',
  'mixture of V': 'Row times matrix is a mixture of rows: each row of V by its share.',
  'heads side by side': 'The mixtures of all heads, one after another.',
  'output map': 'A learned matrix mixes the heads.',
  added: 'What came in is added to what the sublayer computed.',
  normalised: 'Each row to mean 0 and variance 1, times a learned gain, plus a learned bias.',
  up: 'Each row for itself, into a wider space.',
  gate: 'How much of each column is let through.',
  down: 'Back to the width of the network.',
  logits: 'A score for each token.',
  probabilities: 'Softmax of the scores.',
};

const idInAddress = () => decodeURIComponent(location.hash.slice(1));

class Steps {
  // `head()` gives the head to show, {name, head}.
  constructor(head) {
    this.head = head;
    this.steps = [];
    this.at = [0, 0];
    this.id = idInAddress();
    addEventListener('hashchange', () => this.choose(idInAddress()));
    $('layer').addEventListener('change', () => this.followLayer());
    $('before').addEventListener('click', () => this.walk(-1));
    $('after').addEventListener('click', () => this.walk(1));
    $('numbers').addEventListener('click', e => this.point(e.target));
    $('numbers').addEventListener('keydown', e => this.move(e));
  }
  setSteps(steps) {
    this.steps = withIds(steps);
    const layers = this.steps.map(step => placeOf(step.module).layer).filter(layer => layer !== undefined);
    const last = Math.max(0, ...layers);
    if ($('layer').length !== last + 1) fill($('layer'), Array.from({length: last + 1}, (_, i) => String(i)));
    this.draw();
  }
  get chosen() {
    return this.steps.find(step => step.id === this.id);
  }
  // Shows a step, and names it in the address, which browsers change up to 200 times in ten seconds.
  choose(id) {
    if (id === this.id) return;
    this.id = id;
    location.hash = encodeURIComponent(id);
    this.draw();
  }
  draw() {
    const {chosen} = this;
    const layer = chosen && placeOf(chosen.module).layer;
    if (layer !== undefined) $('layer').value = layer;
    drawNetwork(this.steps, +$('layer').value, chosen);
    const isAttention = Boolean(chosen) && chosen.module.endsWith('_attn');
    $('inhead').toggleAttribute('hidden', !isAttention);
    if (isAttention) drawHead(this.steps, chosen.module, this.headOf(chosen), chosen);
    $('number').hidden = !chosen;
    if (chosen) this.drawNumbers(chosen);
  }
  // The head of a step within one; else, that of the map that is shown.
  headOf({box, module}) {
    const {name, head} = this.head();
    if (box !== module) return +box.split(' ')[1];
    return name === module ? head : 0;
  }
  drawNumbers(step) {
    const place = this.steps.indexOf(step);
    $('step').textContent = `${step.box}: ${step.title}`;
    $('count').textContent = `step ${place + 1} of ${this.steps.length}`;
    $('before').disabled = place === 0;
    $('after').disabled = place === this.steps.length - 1;
    $('meaning').textContent = meanings[step.title] || '';
    drawTable($('numbers'), step.matrix);
    this.mark(...this.at);
  }
  walk(by) {
    const next = this.steps[this.steps.indexOf(this.chosen) + by];
    if (next) this.choose(next.id);
  }
  followLayer() {
    const {chosen} = this;
    const inLayer = chosen && chosen.id.match(/^(\w+)\.\d+\.(.*)$/);
    const id = inLayer && `${inLayer[1]}.${$('layer').value}.${inLayer[2]}`;
    if (id && this.steps.some(step => step.id === id)) this.choose(id);
    else if (chosen) this.choose('');
    else this.draw();
  }
  point(cell) {
    if (cell.dataset.i !== undefined) this.mark(+cell.dataset.i, +cell.dataset.j);
  }
  move(event) {
    const step = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[event.key];
    if (!step) return;
    event.preventDefault();
    this.mark(this.at[0] + step[0], this.at[1] + step[1]);
    $('numbers').querySelector('.at').scrollIntoView({block: 'nearest', inline: 'nearest'});
  }
  // Marks a number, within the matrix, and tells how it came about.
  mark(i, j) {
    const {matrix, because} = this.chosen;
    const within = (n, end) => Math.max(0, Math.min(end - 1, n));
    this.at = [within(i, matrix.rows), within(j, shownColumns(matrix))];
    [i, j] = this.at;
    const before = $('numbers').querySelector('.at');
    if (before) before.classList.remove('at');
    $('numbers').querySelector(`[data-i="${i}"][data-j="${j}"]`).classList.add('at');
    const place = `${rowNames(matrix)[i]}, ${columnNames(matrix)[j]}`;
    $('because').textContent = `${place}: ${number(matrix.at(i, j))} = ${because ? because(i, j) : 'given'}`;
  }
}

const mostColumns = 128;

function shownColumns(matrix) {
  return Math.min(matrix.columns, mostColumns);
}

function number(value) {
  return value === -Infinity ? '−∞' : short(value);
}

function rowNames(matrix) {
  return numbered(matrix.labels || Array.from({length: matrix.rows}, (_, i) => String(i)));
}

// The titles, or numbers: "1.0" is the first column of head 1.
function columnNames(matrix) {
  if (matrix.titles) return numbered(matrix.titles);
  const width = matrix.columns / (matrix.heads || 1);
  const name = j => matrix.heads > 1 ? `${Math.floor(j / width)}.${j % width}` : String(j);
  return Array.from({length: matrix.columns}, (_, j) => name(j));
}

function drawTable(table, matrix) {
  const columns = shownColumns(matrix);
  table.textContent = '';
  const head = make(make(table, 'thead'), 'tr');
  make(head, 'th', {}, `${matrix.rows} × ${matrix.columns}`);
  columnNames(matrix).slice(0, columns).forEach(name => make(head, 'th', {scope: 'col'}, name));
  const body = make(table, 'tbody');
  rowNames(matrix).forEach((name, i) => {
    const row = make(body, 'tr');
    make(row, 'th', {scope: 'row'}, name);
    for (let j = 0; j < columns; ++j) make(row, 'td', {'data-i': i, 'data-j': j}, number(matrix.at(i, j)));
  });
  if (columns < matrix.columns) make(make(table, 'caption'), 'span', {}, `the first ${columns} of ${matrix.columns} columns`);
}
