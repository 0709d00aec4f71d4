// Examples with the program's answers; wrong ones first. `chosen(i)` is called with a sample's number.

function drawSamples(samples, chosen) {
  const isJudged = samples.some(s => s.expected);
  const table = $('samples');
  const head = make(make(table, 'thead'), 'tr');
  for (const title of isJudged ? ['input', 'answer', 'expected', ''] : ['prompt', 'continuation']) make(head, 'th', {}, title);
  const body = make(table, 'tbody');
  samples.forEach((sample, i) => {
    const row = make(body, 'tr', {'data-sample': i, tabindex: 0});
    const isRight = sample.output === sample.expected;
    const mark = isRight ? 'good' : 'bad';
    make(row, 'td', {}, sample.input);
    make(row, 'td', isJudged ? {class: mark} : {}, sample.output);
    if (isJudged) {
      make(row, 'td', {}, sample.expected);
      make(row, 'td', {class: 'verdict ' + mark}, isRight ? '✓ right' : '✗ wrong');
    }
    row.addEventListener('click', () => chosen(i));
    row.addEventListener('keydown', e => {
      if (e.key === 'Enter') chosen(i);
    });
  });
}

function markSample(i) {
  document.querySelectorAll('#samples tbody tr').forEach(row => row.classList.toggle('chosen', +row.dataset.sample === i));
}

// The order in which they are shown: wrong answers first.
function wrongFirst(samples) {
  const isWrong = s => s.expected !== '' && s.output !== s.expected;
  return [...samples.filter(isWrong), ...samples.filter(s => !isWrong(s))];
}
