#!/usr/bin/env node
// Unit tests of the report page's scripts that need no browser: units.js
'use strict';
const assert = require('assert');
const test = require('node:test');
const page = require('./page.js');
const {Network, Trace, HeadNeeds, encode, decode, withIds, boxesOf, columnsOf, tensorsWith, saliencyOf, tasks, axisOf} = page;

const width = 8;
const config = {d_model: width, n_heads: 2, d_ff: 6, enc_layers: 2, dec_layers: 1, norm: 'post', activation: 'relu', norm_kind: 'layer', eps: 1e-5};
const vocabulary = [...'0123456789', 'POSITIVE', 'NEGATIVE', 'add', 'subtract', 'BOS', 'EOS'];

// Numbers from -1 to 1 that look random.
function drawn(count, seed) {
  let state = seed;
  return Float32Array.from({length: count}, () => {
    state = (state * 48271) % 2147483647;
    return state / 1073741823.5 - 1;
  });
}

function attentionNames(name) {
  return [[`${name}.in_proj.weight`, [3 * width, width]], [`${name}.in_proj.bias`, [3 * width]],
          [`${name}.out_proj.weight`, [width, width]], [`${name}.out_proj.bias`, [width]]];
}

function layerNames(name, attentions) {
  const norms = [...attentions, 'ffn'].map((_, i) => `${name}.norm${i + 1}`);
  return [...attentions.flatMap(a => attentionNames(`${name}.${a}`)),
          [`${name}.ffn.up.weight`, [6, width]], [`${name}.ffn.up.bias`, [6]],
          [`${name}.ffn.down.weight`, [width, 6]], [`${name}.ffn.down.bias`, [width]],
          ...norms.flatMap(norm => [[`${norm}.weight`, [width]], [`${norm}.bias`, [width]]])];
}

// A network for addsub that has learned nothing.
function storedNetwork(changes) {
  const tensors = [['embedding.weight', [16, width]], ...layerNames('encoder.0', ['self_attn']), ...layerNames('encoder.1', ['self_attn']),
                   ...layerNames('decoder.0', ['self_attn', 'cross_attn']), ['encoder.norm.weight', [width]], ['encoder.norm.bias', [width]],
                   ['decoder.norm.weight', [width]], ['decoder.norm.bias', [width]], ['output.weight', [16, width]], ['output.bias', [16]],
                   ['positions', [9, width]]];
  const count = tensors.reduce((sum, [, shape]) => sum + shape.reduce((a, b) => a * b, 1), 0);
  const values = Buffer.from(drawn(count, 7).buffer).toString('base64');
  return {config: {...config, ...changes}, task: {name: 'addsub', vocabulary, largest: 49, places: ['sign', 'tens', 'units', 'end']}, tensors, values};
}

function answerOf(stored, text = '48 - 27') {
  const network = new Network(stored);
  const task = tasks.addsub;
  return {network, query: task.read(text, stored.task), answer: task.answer(network, task.read(text, stored.task), stored.task)};
}

// The value of "0.3 × 1.2 + 2 × -1 + bias 0.5"; each factor has three digits.
function evaluated(text) {
  return text.split(' + ').reduce((sum, term) => {
    const factors = term.replace('bias ', '').split(' × ').map(Number);
    return sum + factors.reduce((a, b) => a * b, 1);
  }, 0);
}

for (const norm of ['post', 'pre']) {
  test(`each number's sum gives the number, ${norm}`, () => {
    const {answer} = answerOf(storedNetwork({norm}));
    const withSums = answer.steps.filter(step => /^([QKV]|Q Kᵀ|mixture of V|output map|up|down|logits|added|\+ position)$/.test(step.title));
    assert(withSums.length >= 40, String(withSums.length));
    for (const {box, title, matrix, because} of withSums) {
      for (let i = 0; i < matrix.rows; ++i) {
        for (let j = 0; j < matrix.columns; ++j) {
          const error = Math.abs(evaluated(because(i, j)) - matrix.at(i, j));
          assert(error < 0.02 * (3 + Math.abs(matrix.at(i, j))), `${box} ${title}: ${because(i, j)} is not ${matrix.at(i, j)}`);
        }
      }
    }
  });

  test(`the figure has the boxes of the paper, ${norm}`, () => {
    const {answer} = answerOf(storedNetwork({norm}));
    const steps = withIds(answer.steps);
    assert.strictEqual(new Set(steps.map(step => step.id)).size, steps.length);
    const [left, right] = columnsOf(boxesOf(steps), 1);
    const layer = {
      post: ['self-attention', 'add & norm', 'feed forward', 'add & norm'],
      pre: ['norm', 'self-attention', 'add', 'norm', 'feed forward', 'add', 'norm'],
    }[norm];
    assert.deepStrictEqual(left.boxes.map(box => box.label), ['ids', 'embedding', '+ position', ...layer]);
    assert.deepStrictEqual([left.shown, left.layers, right.shown, right.layers], [1, 2, 0, 1]);
    const labels = right.boxes.map(box => box.label);
    assert.deepStrictEqual(labels.slice(-2), ['logits', 'probabilities']);
    assert(labels.includes('masked self-attention') && labels.includes('cross-attention'));
    const shown = boxesOf(steps).flatMap(box => box.steps);
    assert.strictEqual(shown.length, steps.length);  // every step is in a box
  });
}

test('a head that is switched off gives nothing', () => {
  const stored = storedNetwork({});
  const {network, query, answer} = answerOf(stored);
  network.switchedOff.add('decoder.0.cross_attn 1');
  const logits = tasks.addsub.logits(network, query, stored.task, answer.read);
  assert(logits.values.some((value, i) => Math.abs(value - answer.places[0].logits[i]) > 1e-3));
  // The same as without its columns of the output map.
  network.switchedOff.clear();
  const weight = network.tensor('decoder.0.cross_attn.out_proj.weight');
  network.tensors.set('decoder.0.cross_attn.out_proj.weight', weight.map((value, i, j) => j < width / 2 ? value : 0));
  const without = tasks.addsub.logits(network, query, stored.task, answer.read);
  without.values.forEach((value, i) => assert(Math.abs(value - logits.values[i]) < 1e-12));
});

test('gradient times input is the slope of the score', () => {
  const stored = storedNetwork({});
  const {network, query, answer} = answerOf(stored);
  const slopes = saliencyOf(network, stored.task, query, answer);
  assert.deepStrictEqual([slopes.rows, slopes.columns], [answer.places.length, 9]);
  assert.strictEqual(network.scaled.row, -1);
  // By a difference of another size, of the token "4" (row 2), for the first token written.
  const token = page.argmax(answer.places[0].logits);
  const score = factor => {
    network.scaled = {row: 2, factor};
    return tasks.addsub.logits(network, query, stored.task, answer.read).at(0, token);
  };
  assert(Math.abs((score(1 + 1e-5) - score(1 - 1e-5)) / 2e-5 - slopes.at(0, 2)) < 1e-5);
});

test('which heads are needed', () => {
  const maps = [{name: 'encoder.0.self_attn', heads: [0, 0]}, {name: 'decoder.0.cross_attn', heads: [0, 0]}];
  const needs = new HeadNeeds({measure: 'val_exact', examples: 500, whole: 1, without: {'encoder.0.self_attn': [1, 0.99], 'decoder.0.cross_attn': [0.59, 0.98]}});
  assert.deepStrictEqual(needs.ranking(maps).map(({name, head}) => `${name} ${head}`),
    ['decoder.0.cross_attn 0', 'decoder.0.cross_attn 1', 'encoder.0.self_attn 1', 'encoder.0.self_attn 0']);
  assert.deepStrictEqual([0, 1].map(head => needs.isNeeded('decoder.0.cross_attn', head)), [true, true]);
  assert(!needs.isNeeded('encoder.0.self_attn', 1));
  assert.match(needs.summary(maps), /^2 of 4 heads are needed.*500 validation examples; 100 %.*decoder\.0\.cross_attn head 0, which leaves 59 %\.$/);
  const losses = new HeadNeeds({measure: 'val_loss', examples: 100, whole: 2, without: {'encoder.0.self_attn': [2.01, 3], 'decoder.0.cross_attn': [2, 2]}});
  assert(losses.isNeeded('encoder.0.self_attn', 1) && !losses.isNeeded('encoder.0.self_attn', 0));
  assert.strictEqual(losses.text('encoder.0.self_attn', 1), 'loss 3');
  assert.strictEqual(new HeadNeeds(undefined).summary(maps), '');
  const only = new HeadNeeds({measure: 'val_exact', examples: 500, whole: 1, without: {'encoder.0.self_attn': [0]}});
  assert.strictEqual(only.summary([{name: 'encoder.0.self_attn', heads: [0]}]),
    'The only head is needed: 0 % without it, 100 % with it (500 validation examples).');
});

test('what rounds to zero has no sign', () => {
  assert.deepStrictEqual([-0.001, 0.001, -0.1, -1.5, -10].map(page.rounded), ['0.00', '0.00', '-0.10', '-1.50', '-10.00']);
});

test('the network of a snapshot keeps what was not learned', () => {
  const stored = storedNetwork({});
  const final = new Network(stored);
  const learned = page.floatsOf(stored.values).length - 9 * width;
  const zeros = Buffer.from(new Float32Array(learned).buffer).toString('base64');
  const tensors = tensorsWith(stored, zeros);
  assert(tensors.get('output.weight').values.every(value => value === 0));
  assert.deepStrictEqual(tensors.get('positions').values, final.tensor('positions').values);
});

test('shares are drawn from 0 to 100 %', () => {
  assert.deepStrictEqual(axisOf([0.001, 0.9], 'share'), {low: 0, high: 1, isLog: false});
  assert(axisOf([0.001, 0.9]).isLog);
});

test('a result is a number only with the digits of the task', () => {
  const {resultText} = page;
  assert.strictEqual(resultText(['NEGATIVE', '0', '4', 'EOS'], 2), '-4');
  assert.strictEqual(resultText(['NEGATIVE', '0', '0', 'EOS'], 2), '0');
  assert.strictEqual(resultText(['POSITIVE', '1', '0', '4', 'EOS'], 3), '104');
  const others = [['POSITIVE', '4', 'EOS'], ['POSITIVE', '1', '0', '4', 'EOS'], ['0', '4', 'EOS'], ['POSITIVE', '0', '4', 'BOS'], ['EOS']];
  for (const tokens of others) assert.strictEqual(resultText(tokens, 2), tokens.join(' '));
});
