// The network as the paper's figure 1 draws it, and one head as its figure 2 does (Vaswani et al. 2017). Each box is a
// link to its step of the computation, "#encoder.0.self_attn/Q".

// The steps of a computation, each with an id of its own; a module that is used twice has some of its titles twice.
function withIds(steps) {
  const seen = new Map();
  return steps.map(step => {
    const name = `${step.box}/${step.title}`;
    const count = (seen.get(name) || 0) + 1;
    seen.set(name, count);
    return {...step, module: step.box.split(' ')[0], id: count === 1 ? name : `${name}/${count}`};
  });
}

// Steps of one module that follow each other are one box; the input and the output have a box for each step.
function boxesOf(steps) {
  const boxes = [];
  for (const step of steps) {
    const last = boxes[boxes.length - 1];
    const isAlone = /^(input|encoder|decoder|layers|output)$/.test(step.module);
    if (last && last.module === step.module && !isAlone) last.steps.push(step);
    else boxes.push({module: step.module, steps: [step]});
  }
  return boxes.map(box => ({...box, label: labelOf(box), ...placeOf(box.module)}));
}

function labelOf({module, steps}) {
  const has = title => steps.some(step => step.title === title);
  if (module.endsWith('ffn')) return 'feed forward';
  if (module.endsWith('cross_attn')) return 'cross-attention';
  if (module.endsWith('self_attn')) return steps.some(isMasking) ? 'masked self-attention' : 'self-attention';
  if (has('added') && has('normalised')) return 'add & norm';
  if (has('added')) return 'add';
  return steps[0].title === 'normalised' ? 'norm' : steps[0].title;
}

function isMasking(step) {
  return step.title === 'masked' && step.matrix.values.includes(-Infinity);
}

// The column of a module's box, and the layer that it is in, if it is in one.
function placeOf(module) {
  const [, stack, layer] = module.match(/^(encoder|decoder|layers)(?:\.(\d+))?/) || [];
  const column = module === 'input' ? 'encoder' : stack;
  return {column, layer: layer === undefined ? undefined : +layer};
}

// The boxes of each column from the bottom up, of one layer only; the output is on top of the last column.
function columnsOf(boxes, layer) {
  const names = [...new Set(boxes.map(box => box.column).filter(Boolean))];
  return names.map((name, i) => {
    const own = boxes.filter(box => (box.column || names[names.length - 1]) === name);
    const layers = 1 + Math.max(-1, ...own.map(box => box.layer === undefined ? -1 : box.layer));
    const shown = Math.min(layer, layers - 1);
    return {name, layers, shown, isLast: i === names.length - 1, boxes: own.filter(box => box.layer === undefined || box.layer === shown)};
  });
}

const boxSize = {w: 150, h: 26, gap: 14, margin: 44, top: 24};

function linkTo(svg, id, box, label, isChosen) {
  const link = make(svg, 'a', {href: '#' + encodeURIComponent(id), 'data-step': id, class: isChosen ? 'box chosen' : 'box'});
  make(link, 'rect', {x: box.x, y: box.y, width: box.w, height: box.h, rx: 4});
  make(link, 'text', {x: box.x + box.w / 2, y: box.y + box.h / 2 + 4, 'text-anchor': 'middle'}, label);
  return link;
}

function sizeSvg(svg, w, h) {
  svg.textContent = '';
  svg.setAttribute('viewBox', `0 0 ${w} ${h}`);
  svg.style.maxWidth = `${w}px`;
  const arrow = make(make(svg, 'defs'), 'marker', {id: `${svg.id}-arrow`, viewBox: '0 0 6 6', refX: 5, refY: 3, markerWidth: 6, markerHeight: 6, orient: 'auto'});
  make(arrow, 'path', {class: 'tip', d: 'M0 0L6 3L0 6z'});
}

function drawArrow(svg, d) {
  make(svg, 'path', {class: 'flow', d, 'marker-end': `url(#${svg.id}-arrow)`});
}

// Figure 1. `chosen` is the step that is shown, or undefined.
function drawNetwork(steps, layer, chosen) {
  const svg = $('network');
  const columns = columnsOf(boxesOf(steps), layer);
  const {w, h, gap, margin, top} = boxSize;
  const most = Math.max(...columns.map(column => column.boxes.length));
  const height = top + most * (h + gap) + 20;
  sizeSvg(svg, columns.length * (w + 2 * margin), height);
  columns.forEach((column, c) => {
    const x = margin + c * (w + 2 * margin);
    const y = i => height - 20 - (i + 1) * (h + gap) + gap / 2;
    drawLayerFrame(svg, column, x, y);
    make(svg, 'text', {x: x + w / 2, y: height - 4, 'text-anchor': 'middle'}, columns.length > 1 ? `input of the ${column.name}` : 'input');
    column.boxes.forEach((box, i) => {
      drawArrow(svg, `M${x + w / 2} ${y(i) + h + gap - (i ? 0 : 4)}V${y(i) + h + 1}`);
      const isChosen = box.steps.some(step => step.id === (chosen && chosen.id));
      linkTo(svg, box.steps[0].id, {x, y: y(i), w, h}, box.label, isChosen);
      if (box.steps.some(step => step.title === 'added')) drawResidual(svg, column.boxes, i, x, y);
    });
    if (!column.isLast) drawMemory(svg, columns, c, x, y(column.boxes.length - 1), height);
  });
}

// A dashed frame around the boxes of the layer.
function drawLayerFrame(svg, {boxes, layers, shown}, x, y) {
  const {w, h} = boxSize;
  const inside = boxes.map((box, i) => box.layer === undefined ? -1 : i).filter(i => i >= 0);
  if (!inside.length) return;
  const top = y(inside[inside.length - 1]) - 7;
  const frame = {x: x - 26, y: top, width: w + 36, height: y(inside[0]) + h + 7 - top, rx: 6};
  make(svg, 'rect', {...frame, class: 'layer'});
  make(svg, 'text', {transform: `translate(${x - 30} ${top + 2}) rotate(-90)`, 'text-anchor': 'end'}, `layer ${shown} of ${layers}`);
}

// Around the sublayer, from below it or, if it begins with its norm, from below that.
function drawResidual(svg, boxes, i, x, y) {
  const {h, gap} = boxSize;
  const isPre = i >= 2 && boxes[i - 2].label === 'norm';
  const from = y(isPre ? i - 2 : i - 1) + h + gap / 2;
  drawArrow(svg, `M${x + boxSize.w / 2} ${from}H${x - 14}V${y(i) + h / 2}H${x - 1}`);
}

// From the top of the encoder to the cross-attention of the decoder.
function drawMemory(svg, columns, c, x, top, height) {
  const {w, h, gap, margin} = boxSize;
  const at = columns[c + 1].boxes.findIndex(box => box.label === 'cross-attention');
  if (at < 0) return;
  const y = height - 20 - (at + 1) * (h + gap) + gap / 2 + h / 2;
  const middle = x + w + margin / 2;
  drawArrow(svg, `M${x + w / 2} ${top}V${top - gap + 2}H${middle}V${y}H${x + w + 2 * margin - 1}`);
}

// Figure 2: the steps of an attention with one of its heads.
function drawHead(steps, module, head, chosen) {
  const svg = $('inhead');
  const own = steps.filter(step => step.module === module && (step.box === module || step.box === `${module} ${head}`));
  const {w, h, gap} = boxSize;
  const chain = ['output map', 'heads side by side', 'mixture of V', 'softmax', 'masked', 'divided by √d', 'Q Kᵀ'];
  const left = 14;
  const y = i => 26 + i * (h + gap);
  const bottom = y(chain.length);
  sizeSvg(svg, 2 * w + 2 * left, bottom + h + 22);
  const place = title => {
    const third = (w + 2 * left + 30) / 2;
    const at = ['Q', 'K', 'V'].indexOf(title);
    return at < 0 ? {x: left, y: y(chain.indexOf(title)), w, h} : {x: left + at * third, y: bottom, w: third - 12, h};
  };
  make(svg, 'rect', {class: 'layer', x: 4, y: y(2) - 7, width: w + 2 * left - 8, height: y(6) - y(2) + h + 14, rx: 6});
  make(svg, 'text', {x: left + w + 16, y: y(4) + 18}, `head ${head}`);
  make(svg, 'text', {x: left, y: 14}, module);
  chain.forEach((_, i) => drawArrow(svg, `M${left + w / 2 - (i === 6 ? 20 : 0)} ${y(i + 1)}V${y(i) + h + 1}`));
  const [k, v] = [place('K'), place('V')];
  drawArrow(svg, `M${k.x + 20} ${bottom}V${y(6) + h + 1}`);
  drawArrow(svg, `M${v.x + v.w / 2} ${bottom}V${y(2) + h / 2}H${left + w + 1}`);
  for (const step of own) linkTo(svg, step.id, place(step.title), step.title, step.id === chosen.id);
}
