// compare_steps.js REPORT.html TRACE.json: are the steps of the page those that `addsub trace --json --gradients` prints?
// Exits with 1 and tells the difference if a number differs by more than 1e-5 of the matrix's largest.
'use strict';
const fs = require('fs');
const {Network, tasks, dataOf, saliencyOf} = require('./page.js');

const [pageFile, traceFile] = process.argv.slice(2);
const {network: stored} = dataOf(pageFile);
const network = new Network(stored);
const trace = JSON.parse(fs.readFileSync(traceFile, 'utf8'));
const task = tasks[stored.task.name];
const query = task.read(trace.expression, stored.task);
const answer = task.answer(network, query, stored.task);
let failures = 0;

function check(what, found, expected) {
  const values = expected.map(value => value === null ? -Infinity : value);  // JSON has no infinity
  const size = Math.max(1, ...values.filter(Number.isFinite).map(Math.abs));
  const isEqual = (a, b) => a === b || Math.abs(a - b) <= 1e-5 * size;
  if (found.length === values.length && Array.from(found).every((value, i) => isEqual(value, values[i]))) return;
  ++failures;
  console.log(`${what}: the page's numbers differ`);
}

const nameOf = step => `${step.box}: ${step.title}`;
const [shown, told] = [answer.steps, trace.steps].map(steps => steps.map(nameOf).join('\n'));
if (shown !== told) {
  console.log(`the page has the steps\n${shown}\nand the program\n${told}`);
  process.exit(1);
}
answer.steps.forEach((step, i) => check(nameOf(step), step.matrix.values, trace.steps[i].values));
check('saliency', saliencyOf(network, stored.task, query, answer).values, trace.saliency);
process.exit(failures ? 1 : 0);
