// A box to type in, and the answer of the network in this page, place by place with its probabilities.

class Question {
  // `answered(answer)` is called with each answer; see tasks.js.
  constructor(stored, answered) {
    this.network = new Network(stored);
    this.task = stored.task;
    this.answered = answered;
    this.saliency = new Saliency(this.network, this.task);
    $('hint').textContent = this.task.hint || tasks[this.task.name].hint;
    $('input').addEventListener('input', () => this.ask($('input').value));
    $('ask').addEventListener('submit', e => e.preventDefault());
  }
  set(text) {
    $('input').value = text;
    this.ask(text);
  }
  again() {
    this.ask($('input').value);
  }
  ask(text) {
    try {
      const answer = this.answer(text);
      $('input').removeAttribute('aria-invalid');
      $('refused').textContent = '';
      drawAnswer(answer);
      this.last = answer;
      this.saliency.show(text, answer);
      this.answered(answer);
    } catch (error) {
      $('input').setAttribute('aria-invalid', 'true');
      $('refused').textContent = error.message;
    }
  }
  // Throws an Error if the text is no question.
  answer(text) {
    const task = tasks[this.task.name];
    return task.answer(this.network, task.read(text, this.task), this.task);
  }
}

function drawAnswer(answer) {
  const verdict = answer.right === null ? '' : answer.text === answer.right ? 'right' : `wrong: it is ${answer.right}`;
  $('answer').textContent = answer.text;
  $('verdict').textContent = verdict;
  $('verdict').className = verdict === 'right' ? 'good' : 'bad';
  $('places').textContent = '';
  for (const place of answer.places) drawPlace(place, answer.tokens);
}

// The most probable tokens of a place, as bars.
function drawPlace(place, tokens) {
  const kBars = 4;
  const best = tokens.map((token, id) => [place.probabilities[id], token]).sort((a, b) => b[0] - a[0]).slice(0, kBars);
  const figure = make($('places'), 'figure', {class: 'place'});
  make(figure, 'figcaption', {}, place.name);
  for (const [probability, token] of best) {
    const bar = make(figure, 'div', {class: 'bar'});
    make(bar, 'span', {class: 'token'}, token);
    make(make(bar, 'span', {class: 'track'}), 'span', {class: 'share', style: `width:${(100 * probability).toFixed(2)}%`});
    make(bar, 'span', {class: 'number'}, `${(100 * probability).toFixed(1)} %`);
  }
}
