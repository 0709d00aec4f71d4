// What each program's network reads and writes. A task reads a text, {features or ids, labels}, or throws an Error that
// tells what is wrong with it, and answers it:
//   {text, right, places: [{name, scores: [..]}], tokens: the texts of the scores, maps, steps}

// Parses words of digits, each at most `most`.
function numbersOf(text, most) {
  return text.trim().split(/[\s,]+/).map(word => {
    if (!/^\d+$/.test(word) || +word > most) throw new Error(`'${word}' is not a number from 0 to ${most}`);
    return +word;
  });
}

// The scores of the answer's places as probabilities, and what was computed on the way.
function answerOf(text, right, logits, names, tokens, trace) {
  const probabilities = trace.step('output', 'probabilities', softmax(logits));
  const places = names.map((name, i) => ({name, logits: logits.row(i), probabilities: probabilities.row(i)}));
  return {text, right, places, tokens, maps: trace.maps, steps: trace.steps};
}

const tasks = {
  // Two-digit addition and subtraction: an encoder reads the expression, a decoder writes the result.
  addsub: {
    hint: 'two numbers from -49 to 49, added or subtracted',
    read(text, task) {
      const parts = text.match(/^\s*(-?\d{1,9})\s*([+-])\s*(-?\d{1,9})\s*$/);
      if (!parts) throw new Error('an expression such as 48 - 27, please');
      const [left, right] = [+parts[1], +parts[3]];
      if (Math.abs(left) > 49 || Math.abs(right) > 49) throw new Error('operands are from -49 to 49');
      const number = n => [n < 0 ? 'NEGATIVE' : 'POSITIVE', ...String(Math.abs(n)).padStart(2, '0')];
      const labels = ['BOS', ...number(left), parts[2] === '-' ? 'subtract' : 'add', ...number(right), 'EOS'];
      return {labels, ids: idsOf(labels, task), right: String(parts[2] === '-' ? left - right : left + right)};
    },
    answer(network, query, task) {
      const trace = new Trace();
      const memory = encode(network, query.ids, query.labels, trace);
      const written = greedy(network, memory, task, 4);
      const read = ['BOS', ...written].slice(0, written.length);
      const logits = decode(network, idsOf(read, task), written.map(token => `writes ${token}`), memory, trace);
      nameKeys(trace.maps, read);
      const text = resultText(written);
      return answerOf(text, query.right, logits, ['sign', 'tens', 'units', 'end'].slice(0, written.length),
                      task.vocabulary, trace);
    },
  },

  // Each of 16 positions answers with the digit at the mirrored one.
  reverse: {
    hint: '16 digits',
    read(text) {
      const digits = numbersOf(text.replace(/(\d)(?=\d)/g, '$1 '), 9);
      if (digits.length !== 16) throw new Error(`16 digits, please, not ${digits.length}`);
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
      const scores = predictor(network, query.features, trace);
      const logits = matrixOf(scores.values, scores.rows);
      return answerOf(String(argmax(logits.row(0))), query.right, logits, ['odd one'], query.labels, trace);
    },
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
  },
};

const questions = {
  zeros: symbols => symbols.filter(symbol => symbol === 0).length,
  largest: symbols => Math.max(...symbols),
  'most-frequent': symbols => argmax(digitsBelow(16).map(digit => symbols.filter(symbol => symbol === +digit).length)),
};

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

// The most probable token, again and again, up to EOS or `most` tokens.
function greedy(network, memory, task, most) {
  const read = ['BOS'];
  while (read.length <= most && read[read.length - 1] !== 'EOS') {
    const logits = decode(network, idsOf(read, task), read, memory, new Trace());
    read.push(task.vocabulary[argmax(logits.row(logits.rows - 1))]);
  }
  return read.slice(1);
}

// "NEGATIVE 0 4 EOS" is -4; other tokens are shown as they are.
function resultText(tokens) {
  const text = tokens.join(' ');
  const parts = text.match(/^(POSITIVE|NEGATIVE) (\d) (\d) EOS$/);
  return parts ? String((parts[1] === 'NEGATIVE' ? -1 : 1) * +(parts[2] + parts[3]) + 0) : text;
}

// The keys of the decoder's self-attention are the tokens read; those of the others are the encoder's.
function nameKeys(maps, read) {
  for (const map of maps) {
    if (/^decoder.*self_attn$/.test(map.name)) map.keys = read;
  }
}

function nameQueries(maps, names) {
  for (const map of maps) map.queries = names;
}
