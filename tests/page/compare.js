// compare.js REPORT.html CASES.json: does the network in the page compute what the program does?
//
// A case is {text, logits, maps: [{name, weights}]}. Exits with 1 and tells the difference if a logit or a weight
// differs by more than 1e-5, or, of a large logit, by more than 1e-5 of it.
'use strict';
const fs = require('fs');
const {Network, tasks, dataOf} = require('./page.js');

const [pageFile, casesFile] = process.argv.slice(2);
const {network: stored} = dataOf(pageFile);
const network = new Network(stored);
const task = tasks[stored.task.name];
let failures = 0;

function check(what, found, expected) {
  const error = (value, i) => Math.abs(value - expected[i]) / Math.max(1, Math.abs(expected[i]));
  const worst = Math.max(...Array.from(found, error));
  if (found.length === expected.length && worst <= 1e-5) return;
  ++failures;
  console.log(`${what}: ${found.length} numbers for ${expected.length}, which differ by ${worst}`);
}

for (const {text, logits, maps} of JSON.parse(fs.readFileSync(casesFile, 'utf8'))) {
  const answer = task.answer(network, task.read(text, stored.task), stored.task);
  check(`${text}: logits`, answer.places.flatMap(place => Array.from(place.logits)), logits);
  check(`${text}: maps`, answer.maps.map(() => 0), maps.map(() => 0));
  answer.maps.forEach((map, m) => {
    if (map.name !== maps[m].name) throw new Error(`${map.name} is not ${maps[m].name}`);
    check(`${text}: ${map.name}`, map.heads.flatMap(head => Array.from(head.values)), maps[m].weights);
  });
}
process.exit(failures ? 1 : 0);
