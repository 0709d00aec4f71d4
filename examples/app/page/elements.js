'use strict';
// Elements of the page, and how numbers are written.

const svgNamespace = 'http://www.w3.org/2000/svg';

function $(id) {
  return document.getElementById(id);
}

// A new element at the end of its parent; within an svg, one of SVG.
function make(parent, name, attributes, text) {
  const isSvg = parent.namespaceURI === svgNamespace || name === 'svg';
  const element = isSvg ? document.createElementNS(svgNamespace, name) : document.createElement(name);
  for (const key in attributes || {}) element.setAttribute(key, attributes[key]);
  if (text !== undefined) element.textContent = text;
  parent.appendChild(element);
  return element;
}

function removeAll(...ids) {
  ids.forEach(id => $(id).remove());
}

// Three digits.
function short(v) {
  const isExtreme = Math.abs(v) >= 10000 || (v !== 0 && Math.abs(v) < 0.001);
  return isExtreme ? v.toExponential(1) : String(+v.toPrecision(3));
}

function percent(share) {
  return `${+(100 * share).toPrecision(3)} %`;
}

// Fills a select and keeps its value if that is still there.
function fill(select, names) {
  const before = select.value;
  select.textContent = '';
  names.forEach((name, i) => make(select, 'option', {value: i}, name));
  if (before !== '' && +before < names.length) select.value = before;
}

// Labels that occur more than once get their position, from 1: "7 (3)".
function numbered(labels) {
  return labels.map((label, i) => labels.indexOf(label) === labels.lastIndexOf(label) ? label : `${label} (${i + 1})`);
}
