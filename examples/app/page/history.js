// While it learned: a slider over what the network was at some of its evaluations. They are in a file beside the page,
// which calls snapshots(); without it there is no slider.

// Given a list of {step, values}, shows the network of each; the last place is that of the kept model.
class LearningHistory {
  // `changed(step)` is called after the network has got the values of another step; undefined for the kept model.
  constructor(network, stored, evaluations, changed) {
    this.network = network;
    this.stored = stored;
    this.evaluations = evaluations;
    this.changed = changed;
    this.kept = network.tensors;
    this.list = [];
    $('when').addEventListener('input', () => this.show(+$('when').value));
  }
  // Loads the file, which then calls set().
  load(file) {
    if (!(this.stored.snapshots || []).length) return;
    make(document.head, 'script', {src: file});
  }
  set(list) {
    this.list = list.map(({step, values}) => ({step, tensors: tensorsWith(this.stored, values)}));
    $('when').max = list.length;
    $('when').value = list.length;
    $('history').hidden = false;
    this.tell(list.length);
  }
  show(place) {
    const {step, tensors} = this.list[place] || {step: undefined, tensors: this.kept};
    this.network.tensors = tensors;
    this.tell(place);
    this.changed(step);
  }
  tell(place) {
    const text = place < this.list.length ? this.textOf(this.list[place].step) : 'the model that is kept';
    $('then').textContent = text;
    $('when').setAttribute('aria-valuetext', text);
  }
  // "step 400: exact 12 %, loss 0.83"
  textOf(step) {
    const found = this.evaluations.find(e => e.step === step) || {};
    const measures = Object.entries(found).filter(([key]) => /^val_/.test(key));
    const texts = measures.map(([key, value]) => measureText(key, value));
    return [`step ${step}`, texts.join(', ')].filter(Boolean).join(': ');
  }
}

// The tensors with these values; those that were not learned, at the end, are as stored.
function tensorsWith(stored, values) {
  const learned = floatsOf(values);
  const all = floatsOf(stored.values).slice();
  all.set(learned);
  return tensorsOf(stored.tensors, all);
}
