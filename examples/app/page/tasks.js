// What each program's network reads and writes. A task reads a text, {features or ids, labels, right}, or throws an
// Error that tells what is wrong with it, and answers it:
//   {text, right, places: [{name, logits, probabilities}], tokens: the texts of the logits, maps, steps, read}
// logits() computes them again, in case the network has been changed, for the same `read`: what a decoder has read.

// Parses words of digits, each at most `most`.
function numbersOf(text, most) {
  return text.trim().split(/[\s,]+/).map(word => {
    if (!/^\d+$/.test(word) || +word > most) throw new Error(`'${word}' is not a number from 0 to ${most}`);
    return +word;
  });
}

// The scores of the answer's places as probabilities, and what was computed on the way.
function answerOf(text, right, logits, names, tokens, trace, read) {
  const probabilities = trace.step('output', 'probabilities', softmax(logits), (i, j) => shareText(logits.row(i), j));
  for (const matrix of [logits, probabilities]) matrix.titles = tokens;
  const places = names.map((name, i) => ({name, logits: logits.row(i), probabilities: probabilities.row(i)}));
  return {text, right, places, tokens, maps: trace.maps, steps: trace.steps, read};
}

const tasks = {
  // Two-digit addition and subtraction: an encoder reads the expression, a decoder writes the result.
  addsub: {
    read(text, task) {
      const parts = text.match(/^\s*(-?\d{1,9})\s*([+-])\s*(-?\d{1,9})\s*$/);
      if (!parts) throw new Error('an expression such as 48 - 27, please');
      const [left, right] = [+parts[1], +parts[3]];
      const most = task.largest, digits = digitsOf(task);
      if (Math.abs(left) > most || Math.abs(right) > most) throw new Error(`operands are from -${most} to ${most}`);
      const number = n => [n < 0 ? 'NEGATIVE' : 'POSITIVE', ...String(Math.abs(n)).padStart(digits, '0')];
      const labels = ['BOS', ...number(left), parts[2] === '-' ? 'subtract' : 'add', ...number(right), 'EOS'];
      return {labels, ids: idsOf(labels, task), right: String(parts[2] === '-' ? left - right : left + right)};
    },
    answer(network, query, task) {
      const trace = new Trace();
      const memory = encode(network, query.ids, query.labels, trace);
      const {read, written, logits} = greedy(network, memory, task, task.places.length, trace);
      nameRows(trace, read, written);
      const names = task.places.slice(0, written.length);
      return answerOf(resultText(written, digitsOf(task)), query.right, logits, names, task.vocabulary, trace, read);
    },
    logits: decoderLogits,
  },

  // Each position answers with the digit at the mirrored one. The task says how many digits there may be.
  reverse: {
    read(text, task) {
      const digits = numbersOf(text.replace(/(\d)(?=\d)/g, '$1 '), 9);
      const [least, most] = task.lengths;
      if (digits.length < least || digits.length > most) throw new Error(`${task.hint}, please, not ${digits.length}`);
      const right = [...digits].reverse().join(' ');
      return {labels: digits.map(String), features: oneHot(digits, 10, digits.map(String)), right};
    },
    answer(network, query) {
      const trace = new Trace();
      const logits = predictor(network, query.features, trace);
      const written = Array.from({length: logits.rows}, (_, i) => argmax(logits.row(i)));
      const names = written.map((_, i) => String(i + 1));
      nameQueries(trace.maps, written.map(digit => `writes ${digit}`));
      return answerOf(written.join(' '), query.right, logits, names, digitsBelow(10), trace);
    },
    logits: (network, query) => predictor(network, query.features, new Trace()),
  },

  // The same by an encoder-decoder, which writes one digit after another, up to EOS.
  reverse_written: {
    read(text, task) {
      const {labels, right} = tasks.reverse.read(text, task);
      return {labels, ids: idsOf(labels, task), right};
    },
    answer(network, query, task) {
      const trace = new Trace();
      const memory = encode(network, query.ids, query.labels, trace);
      const {read, written, logits} = greedy(network, memory, task, task.lengths[1] + 1, trace);
      nameRows(trace, read, written);
      const names = written.map((_, i) => String(i + 1));
      const text = written.join(' ').replace(/ EOS$/, '');
      return answerOf(text, query.right, logits, names, task.vocabulary, trace, read);
    },
    logits: decoderLogits,
  },

  // One answer about a whole sequence.
  count: {
    hint: '1 to 16 numbers from 0 to 15',
    read(text, task) {
      const symbols = numbersOf(text, 15);
      if (symbols.length > 16) throw new Error(`at most 16 numbers, please, not ${symbols.length}`);
      const features = oneHot(symbols, 16, symbols.map(String));
      return {labels: features.labels, features, right: String(questions[task.question](symbols))};
    },
    answer(network, query) {
      const trace = new Trace();
      const logits = predictor(network, query.features, trace);
      const text = String(argmax(logits.row(0)));
      return answerOf(text, query.right, logits, ['answer'], digitsBelow(logits.columns), trace);
    },
    logits: (network, query) => predictor(network, query.features, new Trace()),
  },

  // Which of ten elements is of another kind? The page has some sets of them.
  odd_one: {
    hint: 'the number of one of the sets below',
    read(text, task) {
      const number = +(text.match(/^\s*(?:set\s+)?(\d+)\s*$/) || [])[1];
      const set = task.sets.find(s => s.number === number);
      if (!set) throw new Error(`this page has the sets ${task.sets.map(s => s.number).join(', ')}`);
      const labels = digitsBelow(set.elements);
      const values = floatsOf(set.features);
      return {labels, features: matrixOf(values, values.length / set.elements, labels), right: String(set.odd)};
    },
    answer(network, query) {
      const trace = new Trace();
      const logits = oneRow(predictor(network, query.features, trace));
      return answerOf(String(argmax(logits.row(0))), query.right, logits, ['odd one'], query.labels, trace);
    },
    logits: (network, query) => oneRow(predictor(network, query.features, new Trace())),
  },

  // The next character of a text.
  charlm: {
    hint: 'a piece of text; ⏎ stands for the end of a line',
    read(text, task) {
      const labels = Array.from(text.replace(/⏎/g, '\n')).slice(-task.longest);
      if (!labels.length) throw new Error('at least one character, please');
      const ids = idsOf(labels, task);
      return {labels: labels.map(shownCharacter), ids, right: null};
    },
    answer(network, query, task) {
      const trace = new Trace();
      const logits = languageModel(network, query.ids, query.labels, trace);
      const last = logits.someRows(logits.rows - 1, 1);
      const tokens = task.vocabulary.map(shownCharacter);
      return answerOf(tokens[argmax(last.row(0))], null, last, ['next character'], tokens, trace);
    },
    logits(network, query) {
      const logits = languageModel(network, query.ids, query.labels, new Trace());
      return logits.someRows(logits.rows - 1, 1);
    },
  },
};

const questions = {
  zeros: symbols => symbols.filter(symbol => symbol === 0).length,
  largest: symbols => Math.max(...symbols),
  'most-frequent': symbols => argmax(digitsBelow(16).map(digit => symbols.filter(symbol => symbol === +digit).length)),
};

function decoderLogits(network, query, task, read) {
  const memory = encode(network, query.ids, query.labels, new Trace());
  return decode(network, idsOf(read, task), read, memory, new Trace());
}

// A score for each row as one row of scores.
function oneRow(scores) {
  return matrixOf(scores.values, scores.rows);
}

function digitsBelow(end) {
  return Array.from({length: end}, (_, i) => String(i));
}

function shownCharacter(character) {
  return {'\n': '⏎', ' ': '␣', '\t': '⇥'}[character] || character;
}

function idsOf(tokens, task) {
  return tokens.map(token => {
    const id = task.vocabulary.indexOf(token);
    if (id < 0) throw new Error(`the model does not know '${token}'`);
    return id;
  });
}

// The most probable token, again and again, up to EOS or `most` tokens. `trace` gets the last pass, which has them all.
function greedy(network, memory, task, most, trace) {
  const read = ['BOS'];
  for (;;) {
    const pass = new Trace();
    const logits = decode(network, idsOf(read, task), read.slice(), memory, pass);
    const next = task.vocabulary[argmax(logits.row(logits.rows - 1))];
    if (next !== 'EOS' && read.length < most) {
      read.push(next);
      continue;
    }
    trace.steps.push(...pass.steps);
    trace.maps.push(...pass.maps);
    return {read, written: [...read.slice(1), next], logits};
  }
}

// Of each operand, and of the result.
function digitsOf(task) {
  return String(task.largest).length;
}

// "NEGATIVE 0 4 EOS" is -4; other tokens, such as those of fewer or more digits, are shown as they are.
function resultText(tokens, digits) {
  const text = tokens.join(' ');
  const parts = text.match(/^(POSITIVE|NEGATIVE) ((?:\d )+)EOS$/);
  if (!parts || parts[2].length !== 2 * digits) return text;
  return String((parts[1] === 'NEGATIVE' ? -1 : 1) * +parts[2].replaceAll(' ', '') + 0);
}

// The rows of the decoder are named by the tokens written; what it embeds, and its own keys, by those read.
function nameRows(trace, read, written) {
  const isSelf = name => /^decoder.*self_attn/.test(name);
  const writes = written.map(token => `writes ${token}`);
  const reads = read.map(token => `reads ${token}`);
  for (const map of trace.maps.filter(map => map.name.startsWith('decoder'))) {
    map.queries = writes;
    if (isSelf(map.name)) map.keys = read;
  }
  for (const {box, title, matrix} of trace.steps.filter(step => /^(decoder|output)/.test(step.box))) {
    const isKey = title === 'K' || title === 'V';
    const isRead = box === 'decoder' || (isSelf(box) && isKey);
    if (isSelf(box) && /^(Q Kᵀ|divided|masked|softmax)/.test(title)) matrix.titles = read;
    if (isRead || isSelf(box) || !isKey) matrix.labels = isRead ? reads : writes;
  }
}

function nameQueries(maps, names) {
  for (const map of maps) map.queries = names;
}
