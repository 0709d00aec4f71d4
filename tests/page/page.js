// The scripts of the report page that need no browser, for tests with node.
'use strict';
const fs = require('fs');
const path = require('path');
const vm = require('vm');

const folder = path.join(__dirname, '../../examples/app/page');
const scripts = ['elements', 'matrix', 'network', 'tasks', 'curves', 'attention', 'heads', 'figure', 'steps', 'saliency', 'history', 'samples'];
const text = scripts.map(name => fs.readFileSync(path.join(folder, name + '.js'), 'utf8')).join('\n');
const names = [...text.matchAll(/^(?:function|class|const) (\w+)/gm)].map(match => match[1]);

// Everything that they define.
module.exports = vm.runInThisContext(`(() => { ${text}\n return {${names.join(', ')}}; })()`);
// The data of a page.
module.exports.dataOf = file => {
  const html = fs.readFileSync(file, 'utf8');
  return JSON.parse(html.match(/<script type="application\/json" id="data">(.*?)<\/script>/s)[1]);
};
