// What an answer rests on: gradient times input, for each token written and each token of the input (Denil et al. 2014).

// d score / d input . input is the slope of the score as this row of the input grows, which a central difference gives to
// ten digits in double precision. [places, rows of the input]
function saliencyOf(network, task, query, answer) {
  const step = 1e-4;
  const chosen = answer.places.map(place => argmax(place.logits));
  const scores = (row, factor) => {
    network.scaled = {row, factor};
    const logits = tasks[task.name].logits(network, query, task, answer.read);
    return chosen.map((token, i) => logits.at(i, token));
  };
  const result = new Matrix(chosen.length, query.labels.length);
  for (let row = 0; row < query.labels.length; ++row) {
    const [above, below] = [scores(row, 1 + step), scores(row, 1 - step)];
    chosen.forEach((_, i) => { result.values[i * result.columns + row] = (above[i] - below[i]) / (2 * step); });
  }
  network.scaled = {row: -1, factor: 1};
  return result;
}

// With two digits; what rounds to zero has no sign.
function rounded(slope) {
  return slope.toFixed(2).replace(/^-(?=0\.00$)/, '');
}

class Saliency {
  constructor(network, task) {
    this.network = network;
    this.task = task;
  }
  // After a pause, so that typing is not slowed down; not for long inputs of large networks.
  show(text, answer) {
    clearTimeout(this.timer);
    const query = tasks[this.task.name].read(text, this.task);
    const values = [...this.network.tensors.values()].reduce((sum, tensor) => sum + tensor.values.length, 0);
    const isSmall = query.labels.length ** 2 * values < 3e7;
    $('salient').hidden = !isSmall;
    if (isSmall) this.timer = setTimeout(() => this.draw(query, answer), 100);
  }
  draw(query, answer) {
    const slopes = saliencyOf(this.network, this.task, query, answer);
    const most = Math.max(...slopes.values.map(Math.abs)) || 1;
    const table = $('saliency');
    table.textContent = '';
    const head = make(make(table, 'thead'), 'tr');
    make(head, 'th', {}, 'written');
    numbered(query.labels).forEach(label => make(head, 'th', {scope: 'col'}, label));
    const body = make(table, 'tbody');
    answer.places.forEach((place, i) => {
      const row = make(body, 'tr');
      make(row, 'th', {scope: 'row'}, `${place.name}: ${answer.tokens[argmax(place.logits)]}`);
      for (const slope of slopes.row(i)) {
        const colour = slope > 0 ? '--a' : '--b';
        const share = (50 * Math.abs(slope) / most).toFixed(1);
        make(row, 'td', {style: `background: color-mix(in srgb, var(${colour}) ${share}%, transparent)`}, rounded(slope));
      }
    });
  }
}
