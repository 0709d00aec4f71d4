// The trained networks, as the program computes them without dropout: Transformer (encoder and decoder), LanguageModel
// (decoder only), Predictor and Classifier (encoder only). Modules are called by the names of their parameters.

// What a pass computes, in order: steps for those who want to follow it, and the attention of each module.
class Trace {
  steps = [];
  maps = [];
  // `box` is the module, `because(i, j)` tells how a number came about.
  step(box, title, matrix, because) {
    this.steps.push({box, title, matrix, because});
    return matrix;
  }
}

class Network {
  // `stored` is {config, tensors: [[name, shape], ...], values}, with the float32 values of all as base64.
  constructor(stored) {
    this.config = stored.config;
    this.tensors = tensorsOf(stored.tensors, floatsOf(stored.values));
    this.switchedOff = new Set();  // heads, as "encoder.0.self_attn 2"
    this.scaled = {row: -1, factor: 1};  // of the input, before positions are added; see saliency.js
  }
  tensor(name) {
    return this.tensors.get(name);
  }
}

function floatsOf(base64) {
  const text = atob(base64);
  const bytes = Uint8Array.from(text, c => c.charCodeAt(0));
  return new Float32Array(bytes.buffer);  // both are little-endian on every machine that has a browser
}

function tensorsOf(names, values) {
  const tensors = new Map();
  let at = 0;
  for (const [name, shape] of names) {
    const size = shape.reduce((a, b) => a * b, 1);
    tensors.set(name, matrixOf(values.subarray(at, at + size), shape[shape.length - 1]));
    at += size;
  }
  return tensors;
}

// ---- modules

// "0.3 x 1.2 + ... + bias 0.1": why a product has the value it has.
function sumText(a, b, bias) {
  const terms = Array.from(a, (value, k) => `${short(value)} × ${short(b[k])}`);
  return terms.join(' + ') + (bias === undefined ? '' : ` + bias ${short(bias)}`);
}

// "e^1.2 / (e^1.2 + e^-0.3)": why a share has the value it has.
function shareText(row, j) {
  const power = value => value === -Infinity ? '0' : `e^${short(value)}`;
  return `${power(row[j])} / (${Array.from(row, power).join(' + ')})`;
}

// x W^T + b with the weight and bias of `name`, or with the part of them that gives the outputs `first` and following.
function linearStep(network, box, title, name, x, trace, first = 0, outputs = undefined) {
  const weights = network.tensor(name + '.weight');
  const biases = network.tensor(name + '.bias');
  const count = outputs === undefined ? weights.rows : outputs;
  const weight = weights.someRows(first, count);
  const bias = biases && biases.someColumns(first, count);
  const because = (i, j) => sumText(x.row(i), weight.row(j), bias && bias.values[j]);
  return trace.step(box, title, linear(x, weight, bias), because);
}

function normalise(network, name, x, trace, norm = network.config.norm_kind === 'rms' ? rmsNorm : layerNorm) {
  const gain = network.tensor(name + '.weight');
  const bias = network.tensor(name + '.bias');
  const because = (i, j) => `${short(x.at(i, j))}, normalised within its row, × gain ${short(gain.values[j])}` +
    (bias ? ` + bias ${short(bias.values[j])}` : '');
  return trace.step(name, 'normalised', norm(x, gain, bias, network.config.eps), because);
}

function addStep(name, title, x, y, trace) {
  const because = (i, j) => `${short(x.at(i, j))} + ${short(y.at(i, j))}`;
  return trace.step(name, title, add(x, y), because);
}

function addNorm(network, name, x, sublayer, trace) {
  if (network.config.norm === 'pre') {
    return addStep(name, 'added', x, sublayer(normalise(network, name, x, trace)), trace);
  }
  return normalise(network, name, addStep(name, 'added', x, sublayer(x), trace), trace);
}

// Queries from x, keys and values from the memory, which is x itself in self-attention.
function multiHeadAttention(network, name, x, memory, isCausal, trace) {
  const {d_model: modelWidth, n_heads: heads} = network.config;
  const kvHeads = network.config.n_kv_heads || heads;
  const headWidth = network.config.head_width || modelWidth / heads;
  const width = headWidth * heads;
  const kvWidth = headWidth * kvHeads;
  const project = (title, input, first, outputs) =>
    linearStep(network, name, title, name + '.in_proj', input, trace, first, outputs);
  const q = byHead(project('Q', x, 0, width), heads);
  const k = byHead(project('K', memory, width, kvWidth), kvHeads);
  const v = byHead(project('V', memory, width + kvWidth, kvWidth), kvHeads);
  const concatenated = new Matrix(x.rows, width, x.labels);
  const map = {name, queries: x.labels, keys: memory.labels, heads: [], isMasked: (i, j) => isCausal && j > i};
  for (let h = 0; h < heads; ++h) {
    const kvFirst = Math.floor(h * kvHeads / heads) * headWidth;
    const head = {
      name: `${name} ${h}`,
      q: q.someColumns(h * headWidth, headWidth),
      k: k.someColumns(kvFirst, headWidth),
      v: v.someColumns(kvFirst, headWidth),
      keys: memory.labels,
    };
    concatenated.setColumns(h * headWidth, attentionHead(network, head, map, trace));
  }
  trace.maps.push(map);
  const because = (i, j) => `column ${j % headWidth} of head ${Math.floor(j / headWidth)}`;
  trace.step(name, 'heads side by side', byHead(concatenated, heads), because);
  return linearStep(network, name, 'output map', name + '.out_proj', concatenated, trace);
}

// Remembers that the columns are those of several heads, for their names.
function byHead(x, heads) {
  x.heads = heads;
  return x;
}

// softmax(q k^T / sqrt(width)) v of one head; zeros if it is switched off.
function attentionHead(network, head, map, trace) {
  const {name, q, k, v, keys} = head;
  const root = Math.sqrt(q.columns);
  const show = (title, matrix, because) => trace.step(name, title, Object.assign(matrix, {titles: keys}), because);
  const scores = show('Q Kᵀ', productTransposed(q, k), (i, j) => sumText(q.row(i), k.row(j)));
  const divided = show('divided by √d', scores.map(x => x / root), (i, j) => `${short(scores.at(i, j))} / ${short(root)}`);
  const masked = show('masked', divided.map((x, i, j) => map.isMasked(i, j) ? -Infinity : x),
                      (i, j) => map.isMasked(i, j) ? 'a later position, which may not be seen' : 'the same, as it may be seen');
  const weights = show('softmax', softmax(masked), (i, j) => shareText(masked.row(i), j));
  map.heads.push(weights);
  const column = j => Array.from({length: v.rows}, (_, k) => v.at(k, j));
  const mixture = network.switchedOff.has(name) ? new Matrix(q.rows, v.columns, q.labels) : product(weights, v);
  return trace.step(name, 'mixture of V', mixture, (i, j) => sumText(weights.row(i), column(j)));
}

function feedForward(network, name, x, trace) {
  const {activation} = network.config;
  const gating = {swiglu: 'silu', geglu: 'gelu', geglu_tanh: 'gelu_tanh'}[activation];
  const up = linearStep(network, name, 'up', name + '.up', x, trace);
  if (!gating) {
    const hidden = trace.step(name, activation, up.map(activations[activation]), (i, j) => `${activation} of ${short(up.at(i, j))}`);
    return linearStep(network, name, 'down', name + '.down', hidden, trace);
  }
  const gate = linearStep(network, name, 'gate', name + '.gate', x, trace);
  const gated = gate.map((value, i, j) => activations[gating](value) * up.at(i, j));
  const because = (i, j) => `${gating} of ${short(gate.at(i, j))}, × ${short(up.at(i, j))}`;
  return linearStep(network, name, 'down', name + '.down', trace.step(name, activation, gated, because), trace);
}

function encoderLayer(network, name, x, isCausal, trace) {
  const attend = z => multiHeadAttention(network, name + '.self_attn', z, z, isCausal, trace);
  const a = addNorm(network, name + '.norm1', x, attend, trace);
  return addNorm(network, name + '.norm2', a, z => feedForward(network, name + '.ffn', z, trace), trace);
}

function decoderLayer(network, name, x, memory, trace) {
  const attend = z => multiHeadAttention(network, name + '.self_attn', z, z, true, trace);
  const attendMemory = z => multiHeadAttention(network, name + '.cross_attn', z, memory, false, trace);
  const a = addNorm(network, name + '.norm1', x, attend, trace);
  const b = addNorm(network, name + '.norm2', a, attendMemory, trace);
  return addNorm(network, name + '.norm3', b, z => feedForward(network, name + '.ffn', z, trace), trace);
}

// `layers` of a stack, and the final norm of pre-norm networks.
function stack(network, name, layers, x, trace, layer) {
  for (let i = 0; i < layers; ++i) x = layer(`${name}.${i}`, x);
  return network.config.norm === 'pre' ? normalise(network, name + '.norm', x, trace) : x;
}

function encoder(network, name, layers, x, isCausal, trace) {
  return stack(network, name, layers, x, trace, (layer, z) => encoderLayer(network, layer, z, isCausal, trace));
}

// Adds its position to each row.
function withPositions(network, box, x, trace) {
  const table = network.tensor('positions') || network.tensor('positions.weight');
  return table ? addStep(box, '+ position', x, table.someRows(0, x.rows), trace) : x;
}

// The decoder reads what has been written; the input is that of the others.
function scaledInput(network, box, x) {
  const {row, factor} = network.scaled;
  return box === 'decoder' || row < 0 ? x : x.map((value, i) => i === row ? factor * value : value);
}

function embed(network, box, table, ids, labels, trace) {
  const column = Object.assign(new Matrix(ids.length, 1, labels, Float64Array.from(ids)), {titles: ['id']});
  trace.step(box, 'ids', column, i => `the number of ${labels[i]} in the vocabulary`);
  const scale = network.config.scale_embeddings ? Math.sqrt(network.config.d_model) : 1;
  const rows = scaledInput(network, box, new Matrix(ids.length, table.columns, labels).map((_, i, j) => scale * table.at(ids[i], j)));
  trace.step(box, 'embedding', rows, (i, j) => `row ${ids[i]}, column ${j} of the table` + (scale === 1 ? '' : ' × √d_model'));
  return withPositions(network, box, rows, trace);
}

function outputLayer(network, x, embedding, trace) {
  if (network.tensor('output.weight')) return linearStep(network, 'output', 'logits', 'output', x, trace);
  const because = (i, j) => sumText(x.row(i), embedding.row(j));
  return trace.step('output', 'logits', productTransposed(x, embedding), because);
}

// ---- networks; ids are token ids, labels their texts

// The encoder's output.
function encode(network, ids, labels, trace) {
  const table = network.tensor('embedding.weight') || network.tensor('src_embedding.weight');
  const x = embed(network, 'encoder', table, ids, labels, trace);
  return encoder(network, 'encoder', network.config.enc_layers, x, false, trace);
}

// Logits of the token after each of these.
function decode(network, ids, labels, memory, trace) {
  const table = network.tensor('embedding.weight') || network.tensor('tgt_embedding.weight');
  const x = embed(network, 'decoder', table, ids, labels, trace);
  const layer = (name, z) => decoderLayer(network, name, z, memory, trace);
  const y = stack(network, 'decoder', network.config.dec_layers, x, trace, layer);
  return outputLayer(network, y, table, trace);
}

// The same of a LanguageModel.
function languageModel(network, ids, labels, trace) {
  const table = network.tensor('embedding.weight');
  const x = embed(network, 'layers', table, ids, labels, trace);
  return outputLayer(network, encoder(network, 'layers', network.config.n_layers, x, true, trace), table, trace);
}

// Predictor: an encoder of features [positions, features]. Classifier: the same, pooled into one row.
function predictor(network, features, trace) {
  const {config} = network;
  const input = trace.step('input', 'features', scaledInput(network, 'input', features));
  let x = linearStep(network, 'input', 'input map', 'input', input, trace);
  if (network.tensor('class_token')) x = inFront(network.tensor('class_token'), x);
  x = withPositions(network, 'input', x, trace);
  x = encoder(network, 'encoder', config.n_layers, x, false, trace);
  for (let i = 0; i < (config.plain_layers || 0); ++i) x = plainLayer(network, `encoder.${i}`, x, trace);
  if (config.pooling) x = trace.step('output', config.pooling, pool(x, config.pooling), (i, j) => `${config.pooling} of column ${j}`);
  if (config.output_network) {
    x = linearStep(network, 'output', 'hidden', 'output.hidden', x, trace);
    const z = normalise(network, 'output.norm', x, trace, layerNorm);  // whatever those of the layers are
    x = trace.step('output', 'relu', z.map(activations.relu), (i, j) => `relu of ${short(z.at(i, j))}`);
  }
  return linearStep(network, 'output', 'logits', 'output.classes', x, trace);
}

// One norm for both sublayers.
function plainLayer(network, name, x, trace) {
  const attend = z => multiHeadAttention(network, name + '.self_attn', z, z, false, trace);
  const a = addNorm(network, name + '.norm1', x, attend, trace);
  return addNorm(network, name + '.norm1', a, z => feedForward(network, name + '.ffn', z, trace), trace);
}

function inFront(token, x) {
  return new Matrix(x.rows + 1, x.columns, ['class', ...x.labels], Float64Array.of(...token.values, ...x.values));
}

function pool(x, pooling) {
  const column = j => Array.from({length: x.rows}, (_, i) => x.at(i, j));
  const pools = {
    'class-token': j => x.at(0, j),
    mean: j => column(j).reduce((a, b) => a + b, 0) / x.rows,
    max: j => Math.max(...column(j)),
  };
  return new Matrix(1, x.columns, ['sequence']).map((_, i, j) => pools[pooling](j));
}
