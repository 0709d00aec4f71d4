// The report page, put together from its parts and its data.

const data = JSON.parse($('data').textContent);

// Lines that begin with blanks are examples and stay lines; the others are joined.
function joinedLines(text) {
  const joint = (line, i, all) => i === 0 ? '' : line[0] === ' ' || all[i - 1][0] === ' ' ? '\n' : ' ';
  return text.split('\n').map((line, i, all) => joint(line, i, all) + line).join('');
}

// "Right on 500 of 500 validation expressions", if there is a measure of that kind.
function verdictOf(result, summary) {
  const [, count, unit] = (summary || '').match(/(\d+) validation (\w+)/) || [];
  const share = result.val_exact ?? result.val_accuracy;
  if (share === undefined || !count) return '';
  const fresh = result.val_exact_not_in_train;
  const text = `Right on ${Math.round(share * count)} of ${count} validation ${unit}`;
  return text + (fresh === undefined ? '.' : `; on ${percent(fresh)} of those that are not in the training data.`);
}

function showTexts() {
  const running = data.finished ? '' : ' Training is still running; load the page again to see more.';
  $('about').textContent = joinedLines(data.about) + running;
  $('outcome').textContent = verdictOf(data.result, data.data);
  $('result').textContent = Object.entries(data.result).map(([key, value]) => measureText(key, value)).join(', ');
  $('model').textContent = data.model;
  $('command').textContent = data.command;
  $('options').textContent = JSON.stringify(data.options, null, 2);
  $('copy').addEventListener('click', () => {
    getSelection().selectAllChildren($('command'));
    document.execCommand('copy');
    $('copy').textContent = 'copied';
  });
}

// The samples, the question and all that is seen of an answer.
class Inside {
  constructor(samples) {
    this.samples = samples;
    this.needs = new HeadNeeds(data.network && data.network.heads);
    this.grid = new HeadGrid(this.needs, (name, head) => this.view.choose(name, head));
    this.view = new AttentionView((map, head) => this.chosen(map, head));
    this.question = data.network && new Question(data.network, answer => this.answered(answer));
    this.steps = this.question && new Steps(() => ({name: this.view.map.name, head: this.view.head}));
    this.isFirst = true;
    drawSamples(samples, i => this.choose(i));
    fill($('sample'), samples.map((s, i) => `${i + 1}: ${s.input.slice(0, 40)}`));
    $('sample').addEventListener('change', () => this.choose(+$('sample').value));
    if (this.question) this.listenToSwitches();
    if (this.question) this.history = new LearningHistory(this.question.network, data.network, data.evaluations, step => this.goTo(step));
    else removeAll('question', 'off', 'steps');
    if (this.question || samples.some(s => s.maps.length)) this.choose(0);
    else $('attention').remove();
  }
  choose(i) {
    const {input, maps} = this.samples[i];
    $('sample').value = i;
    markSample(i);
    if (this.question) this.question.set(input);
    else if (maps.length) this.setMaps(maps.map(mapOf));
  }
  answered(answer) {
    this.setMaps(answer.maps);
    this.steps.setSteps(answer.steps);
  }
  // Shows the network of another step.
  goTo(step) {
    this.question.again();
    stepMarkers.forEach(mark => mark(step));
  }
  get switchedOff() {
    return this.question ? this.question.network.switchedOff : new Set();
  }
  setMaps(maps) {
    this.grid.setMaps(maps, this.switchedOff);
    this.view.setMaps(maps);
    if (!this.isFirst) return;
    this.isFirst = false;
    const [{name, head}] = this.needs.ranking(maps);
    this.view.choose(name, head);
  }
  chosen(map, head) {
    this.grid.mark(map.name, head);
    if (this.steps && this.steps.steps.length) this.steps.draw();
    this.showSwitches();
  }
  listenToSwitches() {
    $('off').addEventListener('click', () => {
      const key = `${this.view.map.name} ${this.view.head}`;
      if (!this.switchedOff.delete(key)) this.switchedOff.add(key);
      this.question.again();
    });
    $('all').addEventListener('click', () => {
      this.switchedOff.clear();
      this.question.again();
    });
  }
  showSwitches() {
    if (!this.question) return;
    const off = [...this.switchedOff];
    const isOff = off.includes(`${this.view.map.name} ${this.view.head}`);
    $('off').textContent = isOff ? 'switch this head on' : 'switch this head off';
    $('off').setAttribute('aria-pressed', isOff);
    $('all').hidden = !off.length;
    const {text} = this.question.last;
    $('switched').textContent = off.length ? `${text} is the answer without ${off.join(', ')}.` : '';
  }
}

showTexts();
drawTraining(data);
const shown = new Inside(wrongFirst(data.samples));

// Called by the file beside this page.
function snapshots(list) {
  shown.history.set(list);
}
if (shown.history) shown.history.load('report-snapshots.js');
