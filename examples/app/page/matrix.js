// Matrices, row by row in double precision, and what a Transformer computes with them. The rows may have labels, the
// tokens that they stand for, which results inherit.

class Matrix {
  constructor(rows, columns, labels, values) {
    this.rows = rows;
    this.columns = columns;
    this.labels = labels;
    this.values = values || new Float64Array(rows * columns);
  }
  at(i, j) {
    return this.values[i * this.columns + j];
  }
  row(i) {
    return this.values.subarray(i * this.columns, (i + 1) * this.columns);
  }
  // A new matrix of the same shape, each value from f(value, row, column).
  map(f) {
    const result = new Matrix(this.rows, this.columns, this.labels);
    for (let i = 0, at = 0; i < this.rows; ++i) {
      for (let j = 0; j < this.columns; ++j, ++at) result.values[at] = f(this.values[at], i, j);
    }
    return result;
  }
  // Some rows, in the same memory.
  someRows(first, count) {
    const labels = this.labels && this.labels.slice(first, first + count);
    const values = this.values.subarray(first * this.columns, (first + count) * this.columns);
    return new Matrix(count, this.columns, labels, values);
  }
  // A copy of some columns, and the opposite.
  someColumns(first, count) {
    return new Matrix(this.rows, count, this.labels).map((_, i, j) => this.at(i, first + j));
  }
  setColumns(first, part) {
    for (let i = 0; i < part.rows; ++i) {
      for (let j = 0; j < part.columns; ++j) this.values[i * this.columns + first + j] = part.at(i, j);
    }
  }
}

function dot(a, b) {
  let sum = 0;
  for (let k = 0; k < a.length; ++k) sum += a[k] * b[k];
  return sum;
}

// The values in pieces of `columns`.
function matrixOf(values, columns, labels) {
  return new Matrix(values.length / columns, columns, labels, new Float64Array(values));
}

// A row for each index, with a 1 in that column.
function oneHot(indices, columns, labels) {
  return new Matrix(indices.length, columns, labels).map((_, i, j) => Number(indices[i] === j));
}

function add(a, b) {
  return a.map((value, i, j) => value + b.at(i, j));
}

// x W^T + bias, with W [outputs, inputs] and an optional bias [1, outputs].
function linear(x, weight, bias) {
  const result = productTransposed(x, weight);
  const n = result.columns;
  if (bias) for (let at = 0; at < result.values.length; ++at) result.values[at] += bias.values[at % n];
  return result;
}

// A B^T: the dot product of each row of A with each row of B.
function productTransposed(a, b) {
  const result = new Matrix(a.rows, b.rows, a.labels);
  const inner = a.columns;
  const [left, right, values] = [a.values, b.values, result.values];
  for (let i = 0, at = 0; i < a.rows; ++i) {
    for (let j = 0; j < b.rows; ++j, ++at) {
      const first = i * inner;
      const second = j * inner;
      let sum = 0;
      for (let k = 0; k < inner; ++k) sum += left[first + k] * right[second + k];
      values[at] = sum;
    }
  }
  return result;
}

// A B: each row is a mixture of the rows of B.
function product(a, b) {
  const result = new Matrix(a.rows, b.columns, a.labels);
  for (let i = 0; i < a.rows; ++i) {
    const mixture = result.row(i);
    for (let k = 0; k < b.rows; ++k) {
      const share = a.at(i, k);
      for (let j = 0; j < b.columns; ++j) mixture[j] += share * b.at(k, j);
    }
  }
  return result;
}

// f of each row.
function ofRows(x, f) {
  return Array.from({length: x.rows}, (_, i) => f(x.row(i)));
}

function sumOf(values) {
  let sum = 0;
  for (let k = 0; k < values.length; ++k) sum += values[k];
  return sum;
}

// Of each row; minus infinity becomes exactly 0.
function softmax(x) {
  const most = ofRows(x, row => Math.max(...row));
  const powers = x.map((value, i) => Math.exp(value - most[i]));
  const sums = ofRows(powers, sumOf);
  return powers.map((value, i) => value / sums[i]);
}

// Each row normalised to mean 0 and variance 1, times a gain, plus an optional bias.
function layerNorm(x, gain, bias, eps) {
  const means = ofRows(x, row => sumOf(row) / x.columns);
  const centred = x.map((value, i) => value - means[i]);
  return rmsNorm(centred, gain, bias, eps);
}

// Each row divided by its root mean square, times a gain, plus an optional bias.
function rmsNorm(x, gain, bias, eps) {
  const scales = ofRows(x, row => 1 / Math.sqrt(dot(row, row) / x.columns + eps));
  return x.map((value, i, j) => value * scales[i] * gain.values[j] + (bias ? bias.values[j] : 0));
}

// The error function, by its series of positive terms (Abramowitz and Stegun 7.1.6).
function erf(x) {
  if (Math.abs(x) > 6) return Math.sign(x);
  let term = x;
  let sum = x;
  for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); ++n) {
    term *= 2 * x * x / (2 * n + 1);
    sum += term;
  }
  return 2 / Math.sqrt(Math.PI) * Math.exp(-x * x) * sum;
}

const activations = {
  none: x => x,
  relu: x => Math.max(0, x),
  gelu: x => x * (1 + erf(x / Math.SQRT2)) / 2,
  gelu_tanh: x => x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))) / 2,
  silu: x => x / (1 + Math.exp(-x)),
};

// The index of the largest value; the first of equal ones.
function argmax(values) {
  return values.reduce((best, value, i) => value > values[best] ? i : best, 0);
}
