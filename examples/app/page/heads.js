// All heads at a glance: a picture of each head's map, and which heads are needed.

// A head is needed if the network without it loses this much: of all answers, or of the loss.
const neededFrom = 0.02;

// What the program measured at the end of training: {measure, examples, whole, without: {module: [score, ...]}}.
class HeadNeeds {
  constructor(stored) {
    this.stored = stored;
  }
  get isKnown() {
    return Boolean(this.stored);
  }
  get isLoss() {
    return this.stored.measure === 'val_loss';
  }
  // What is lost without this head.
  lost(name, head) {
    if (!this.isKnown) return 0;
    const without = this.stored.without[name][head];
    return this.isLoss ? without / this.stored.whole - 1 : this.stored.whole - without;
  }
  isNeeded(name, head) {
    return this.lost(name, head) >= neededFrom;
  }
  // "73.4 %" or "loss 1.8", of the network without this head.
  text(name, head) {
    const without = this.stored.without[name][head];
    return this.isLoss ? `loss ${short(without)}` : percent(without);
  }
  // {name, head} of all heads of these maps, those without which most is lost first; equal ones in the network's order.
  ranking(maps) {
    const all = maps.flatMap(map => map.heads.map((_, head) => ({name: map.name, head})));
    return all.sort((a, b) => this.lost(b.name, b.head) - this.lost(a.name, a.head));
  }
  summary(maps) {
    if (!this.isKnown) return '';
    const all = this.ranking(maps);
    const [first] = all;
    const needed = all.filter(({name, head}) => this.isNeeded(name, head)).length;
    const falls = this.isLoss ? 'the loss rises' : 'the share of right answers falls';
    const whole = this.isLoss ? `loss ${short(this.stored.whole)}` : percent(this.stored.whole);
    const left = this.text(first.name, first.head);
    if (all.length === 1) {
      const verdict = needed ? 'needed' : 'not needed';
      return `The only head is ${verdict}: ${left} without it, ${whole} with it (${this.stored.examples} validation examples).`;
    }
    return `${needed} of ${all.length} heads are needed, those without which ${falls} by 2 % or more ` +
      `(${this.stored.examples} validation examples; ${whole} with all heads). ` +
      `Most is lost without ${first.name} head ${first.head}, which leaves ${left}.`;
  }
}

class HeadGrid {
  // `choose(name, head)` is called for a head that is clicked.
  constructor(needs, choose) {
    this.needs = needs;
    this.choose = choose;
    this.buttons = new Map();  // by "module head"
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.paint());
  }
  // Shows the maps of another input. Modules with the most needed heads come first.
  setMaps(maps, switchedOff) {
    this.maps = maps;
    if (!this.buttons.size) this.build();
    for (const [key, button] of this.buttons) button.classList.toggle('off', switchedOff.has(key));
    this.paint();
  }
  build() {
    $('needs').textContent = this.needs.summary(this.maps);
    const modules = [...new Set(this.needs.ranking(this.maps).map(({name}) => name))];
    for (const name of modules) this.buildModule(this.maps.find(map => map.name === name));
  }
  buildModule({name, heads}) {
    const group = make($('grid'), 'div', {class: 'module', role: 'group', 'aria-label': name});
    make(group, 'span', {class: 'name'}, name);
    heads.forEach((_, head) => {
      const isNeeded = this.needs.isNeeded(name, head);
      const need = isNeeded ? 'needed' : 'not needed';
      const told = this.needs.isKnown ? `, ${need}: ${this.needs.text(name, head)} without it` : '';
      const label = `${name} head ${head}${told}`;
      const button = make(group, 'button', {class: isNeeded ? 'head needed' : 'head', title: label, 'aria-label': label});
      make(button, 'canvas');
      if (this.needs.isKnown) make(button, 'span', {class: 'need'}, isNeeded ? this.needs.text(name, head) : need);
      button.addEventListener('click', () => this.choose(name, head));
      this.buttons.set(`${name} ${head}`, button);
    });
  }
  mark(name, head) {
    for (const [key, button] of this.buttons) button.setAttribute('aria-pressed', key === `${name} ${head}`);
  }
  paint() {
    const style = getComputedStyle(document.documentElement);
    const colours = {weight: style.getPropertyValue('--a'), masked: style.getPropertyValue('--line')};
    for (const map of this.maps || []) {
      map.heads.forEach((weights, head) => {
        paintMap(this.buttons.get(`${map.name} ${head}`).querySelector('canvas'), map, weights, colours);
      });
    }
  }
}

// A map with one pixel for each weight; the darkest is the head's largest.
function paintMap(canvas, map, weights, colours) {
  const most = weights.values.reduce((a, b) => Math.max(a, b), 0) || 1;
  canvas.width = weights.columns;
  canvas.height = weights.rows;
  const context = canvas.getContext('2d');
  for (let i = 0; i < weights.rows; ++i) {
    for (let j = 0; j < weights.columns; ++j) {
      const isMasked = map.isMasked(i, j);
      context.globalAlpha = isMasked ? 0.5 : weights.at(i, j) / most;
      context.fillStyle = isMasked ? colours.masked : colours.weight;
      context.fillRect(j, i, 1, 1);
    }
  }
}
