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
  $('result').textContent = Object.entries(data.result).map(([key, value]) => `${key} ${short(value)}`).join(', ');
  $('model').textContent = data.model;
  $('command').textContent = data.command;
  $('options').textContent = JSON.stringify(data.options, null, 2);
  $('copy').addEventListener('click', () => {
    getSelection().selectAllChildren($('command'));
    document.execCommand('copy');
    $('copy').textContent = 'copied';
  });
}

function showSamples(samples) {
  const view = new AttentionView(() => {});
  const question = data.network && new Question(data.network, answer => view.setMaps(answer.maps));
  const choose = i => {
    $('sample').value = i;
    markSample(i);
    if (question) question.set(samples[i].input);
    else if (samples[i].maps.length) view.setMaps(samples[i].maps.map(mapOf));
  };
  drawSamples(samples, choose);
  fill($('sample'), samples.map((s, i) => `${i + 1}: ${s.input.slice(0, 40)}`));
  $('sample').addEventListener('change', () => choose(+$('sample').value));
  if (!question) $('question').remove();
  if (!question && !samples.some(s => s.maps.length)) $('attention').remove();
  else choose(0);
  return {view, question};
}

showTexts();
drawTraining(data);
const shown = showSamples(wrongFirst(data.samples));
