// ONNX's ops as loops over indices, as docs/Operators.md of github.com/onnx/onnx defines them.
#include "support/onnx.h"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <span>

namespace test {
namespace {

using Index = std::vector<int>;
using Inputs = std::vector<OnnxArray>;
using Outputs = std::vector<OnnxArray>;

OnnxArray scalar(double value) {
  OnnxArray x(Index{});
  x.v[0] = value;
  return x;
}

OnnxArray list(const std::vector<double>& values) {
  OnnxArray x(Index{static_cast<int>(values.size())});
  x.v = values;
  return x;
}

std::size_t at(int axis, int rank) { return static_cast<std::size_t>(axis < 0 ? axis + rank : axis); }
std::size_t at(double axis, int rank) { return at(static_cast<int>(axis), rank); }

// ---- broadcasting

Index broadcast_shape(const Index& a, const Index& b) {
  Index shape(std::max(a.size(), b.size()), 1);
  for (const Index& own : {a, b})
    for (std::size_t i = 0; i < own.size(); ++i) {
      int& size = shape[shape.size() - own.size() + i];
      BOOST_REQUIRE(own[i] == size || own[i] == 1 || size == 1);
      if (own[i] != 1) size = own[i];
    }
  return shape;
}

// The element of x at an index of a shape that it is broadcast to.
double element(const OnnxArray& x, const Index& index) {
  Index own(index.end() - x.rank(), index.end());
  for (std::size_t i = 0; i < own.size(); ++i)
    if (x.shape[i] == 1) own[i] = 0;
  return x(own);
}

OnnxArray broadcast(const OnnxArray& a, const OnnxArray& b, const std::function<double(double, double)>& f) {
  OnnxArray y(broadcast_shape(a.shape, b.shape));
  each_index(y.shape, [&](const Index& i) { y(i) = f(element(a, i), element(b, i)); });
  return y;
}

OnnxArray each(const OnnxArray& x, const std::function<double(double)>& f) {
  OnnxArray y(x.shape);
  std::ranges::transform(x.v, y.v.begin(), f);
  return y;
}

OnnxArray where(const OnnxArray& condition, const OnnxArray& a, const OnnxArray& b) {
  OnnxArray y(broadcast_shape(condition.shape, broadcast_shape(a.shape, b.shape)));
  each_index(y.shape, [&](const Index& i) { y(i) = element(condition, i) != 0 ? element(a, i) : element(b, i); });
  return y;
}

OnnxArray matmul(const OnnxArray& a, const OnnxArray& b) {
  const Index lead_a(a.shape.begin(), a.shape.end() - 2), lead_b(b.shape.begin(), b.shape.end() - 2);
  Index shape = broadcast_shape(lead_a, lead_b);
  shape.insert(shape.end(), {a.size(-2), b.size(-1)});
  BOOST_REQUIRE_EQUAL(a.size(-1), b.size(-2));
  OnnxArray y(shape);
  each_index(shape, [&](const Index& i) {
    Index left = i, right = i;
    for (int k = 0; k < a.size(-1); ++k) {
      left[left.size() - 1] = right[right.size() - 2] = k;
      y(i) += element(a, left) * element(b, right);
    }
  });
  return y;
}

// ---- rows along the last axis

OnnxArray each_row(const OnnxArray& x, const std::function<void(std::span<double>)>& f) {
  OnnxArray y = x;
  const auto size = static_cast<std::size_t>(x.size(-1));
  for (std::size_t i = 0; i < y.v.size(); i += size) f(std::span(y.v).subspan(i, size));
  return y;
}

void softmax(std::span<double> row) {
  const double largest = *std::ranges::max_element(row);
  double sum = 0;
  for (double& v : row) sum += v = std::exp(v - largest);
  for (double& v : row) v /= sum;
}

OnnxArray layer_norm(const Inputs& in, double epsilon) {
  const OnnxArray normed = each_row(in[0], [&](std::span<double> row) {
    const double n = static_cast<double>(row.size());
    const double mean = std::reduce(row.begin(), row.end()) / n;
    double variance = 0;
    for (const double v : row) variance += (v - mean) * (v - mean) / n;
    for (double& v : row) v = (v - mean) / std::sqrt(variance + epsilon);
  });
  const OnnxArray scaled = broadcast(normed, in[1], std::multiplies<>());
  return in.size() < 3 ? scaled : broadcast(scaled, in[2], std::plus<>());
}

// The sums along the last axis, [..., 1].
OnnxArray sums(const OnnxArray& x) {
  Index shape = x.shape;
  shape.back() = 1;
  OnnxArray y(shape);
  const auto size = static_cast<std::size_t>(x.size(-1));
  for (std::size_t i = 0; i < x.v.size(); ++i) y.v[i / size] += x.v[i];
  return y;
}

Outputs topk(const OnnxArray& x, int k) {
  Index shape = x.shape;
  shape.back() = k;
  OnnxArray values(shape), indices(shape);
  values.v.clear(), indices.v.clear();
  each_row(x, [&](std::span<double> row) {
    std::vector<int> order(row.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(
        order, [&](int a, int b) { return row[static_cast<std::size_t>(a)] > row[static_cast<std::size_t>(b)]; });
    for (std::size_t i = 0; i < static_cast<std::size_t>(k); ++i) {
      values.v.push_back(row[static_cast<std::size_t>(order[i])]);
      indices.v.push_back(order[i]);
    }
  });
  return {values, indices};
}

// ---- shapes

OnnxArray transpose(const OnnxArray& x, const std::vector<double>& axes) {
  Index shape(axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i) shape[i] = x.shape[static_cast<std::size_t>(axes[i])];
  OnnxArray y(shape);
  each_index(shape, [&](const Index& i) {
    Index from(i.size());
    for (std::size_t axis = 0; axis < axes.size(); ++axis) from[static_cast<std::size_t>(axes[axis])] = i[axis];
    y(i) = x(from);
  });
  return y;
}

OnnxArray reshape(const OnnxArray& x, const std::vector<double>& sizes) {
  OnnxArray y = x;
  y.shape.clear();
  for (std::size_t i = 0; i < sizes.size(); ++i)
    y.shape.push_back(sizes[i] == 0 ? x.shape[i] : static_cast<int>(sizes[i]));
  const auto inferred = std::ranges::find(y.shape, -1);
  if (inferred != y.shape.end()) {
    *inferred = 1;
    *inferred = static_cast<int>(x.v.size() / OnnxArray::count(y.shape));
  }
  BOOST_REQUIRE_EQUAL(OnnxArray::count(y.shape), x.v.size());
  return y;
}

OnnxArray unsqueeze(OnnxArray x, std::vector<double> axes) {
  std::ranges::sort(axes);
  for (const double axis : axes) x.shape.insert(x.shape.begin() + static_cast<int>(axis), 1);
  return x;
}

OnnxArray slice(const OnnxArray& x, int begin, int end, std::size_t axis) {
  Index shape = x.shape;
  shape[axis] = std::min(end, shape[axis]) - begin;
  OnnxArray y(shape);
  each_index(shape, [&](Index i) {
    double& value = y(i);
    i[axis] += begin;
    value = x(i);
  });
  return y;
}

Outputs split(const OnnxArray& x, const std::vector<double>& sizes, std::size_t axis) {
  Outputs parts;
  int begin = 0;
  for (const double size : sizes) {
    parts.push_back(slice(x, begin, begin + static_cast<int>(size), axis));
    begin += static_cast<int>(size);
  }
  BOOST_REQUIRE_EQUAL(begin, x.shape[axis]);
  return parts;
}

OnnxArray concat(const Inputs& in, std::size_t axis) {
  Index shape = in[0].shape;
  for (std::size_t k = 1; k < in.size(); ++k) shape[axis] += in[k].shape[axis];
  OnnxArray y(shape);
  int begin = 0;
  for (const OnnxArray& part : in) {
    each_index(part.shape, [&](Index i) {
      const double value = part(i);
      i[axis] += begin;
      y(i) = value;
    });
    begin += part.shape[axis];
  }
  return y;
}

// The slices of x at the indices: their shape takes the place of the axis.
OnnxArray gather(const OnnxArray& x, const OnnxArray& indices, std::size_t axis) {
  const auto place = static_cast<std::ptrdiff_t>(axis);
  Index shape(x.shape.begin(), x.shape.begin() + place);
  shape.insert(shape.end(), indices.shape.begin(), indices.shape.end());
  shape.insert(shape.end(), x.shape.begin() + place + 1, x.shape.end());
  OnnxArray y(shape);
  each_index(shape, [&](const Index& i) {
    const auto behind = i.begin() + place + indices.rank();
    Index from(i.begin(), i.begin() + place);
    from.push_back(static_cast<int>(indices(Index(i.begin() + place, behind))));
    BOOST_REQUIRE(from.back() >= 0 && from.back() < x.shape[axis]);
    from.insert(from.end(), behind, i.end());
    y(i) = x(from);
  });
  return y;
}

OnnxArray one_hot(const OnnxArray& ids, int depth) {
  Index shape = ids.shape;
  shape.push_back(depth);
  OnnxArray y(shape);
  for (std::size_t i = 0; i < ids.v.size(); ++i)
    y.v[i * static_cast<std::size_t>(depth) + static_cast<std::size_t>(ids.v[i])] = 1;
  return y;
}

OnnxArray expand(const OnnxArray& x, const std::vector<double>& sizes) {
  OnnxArray zeros(Index(sizes.begin(), sizes.end()));
  return broadcast(x, zeros, std::plus<>());
}

// ---- the table of ops

using Run = std::function<Outputs(const OnnxNode&, const Inputs&)>;

double attribute(const OnnxNode& node, const char* name) { return node.attributes.at(name).at(0); }

Run unary(double (*f)(double)) {
  return [f](const OnnxNode&, const Inputs& in) { return Outputs{each(in.at(0), f)}; };
}
Run binary(const std::function<double(double, double)>& f) {
  return [f](const OnnxNode&, const Inputs& in) { return Outputs{broadcast(in.at(0), in.at(1), f)}; };
}
Run one(const std::function<OnnxArray(const OnnxNode&, const Inputs&)>& f) {
  return [f](const OnnxNode& node, const Inputs& in) { return Outputs{f(node, in)}; };
}

OnnxArray mean_of_last(const OnnxNode& node, const Inputs& in) {
  BOOST_REQUIRE(node.attributes.at("axes") == std::vector<double>{-1} && attribute(node, "keepdims") == 1);
  return each(sums(in[0]), [n = in[0].size(-1)](double sum) { return sum / n; });
}

OnnxArray mean_of_first(const OnnxArray& x) {  // [batch, length, d] -> [batch, d]
  OnnxArray y(Index{x.size(0), x.size(2)});
  each_index(x.shape, [&](const Index& i) { y({i[0], i[2]}) += x(i) / x.size(1); });
  return y;
}

OnnxArray shape_of(const OnnxNode& node, const Inputs& in) {
  const auto begin = static_cast<std::size_t>(attribute(node, "start")), end = std::size_t(attribute(node, "end"));
  std::vector<double> sizes(in[0].shape.begin(), in[0].shape.end());
  return list({sizes.begin() + static_cast<std::ptrdiff_t>(begin), sizes.begin() + static_cast<std::ptrdiff_t>(end)});
}

OnnxArray range(const Inputs& in) {
  std::vector<double> values;
  for (double v = in[0].v[0]; v < in[1].v[0]; v += in[2].v[0]) values.push_back(v);
  return list(values);
}

OnnxArray largest_of_first(const OnnxArray& x) {  // [batch, length, d] -> [batch, d]
  OnnxArray y(Index{x.size(0), x.size(2)});
  std::ranges::fill(y.v, -INFINITY);
  each_index(x.shape, [&](const Index& i) { y({i[0], i[2]}) = std::max(y({i[0], i[2]}), x(i)); });
  return y;
}

const std::map<std::string, Run>& table() {
  static const std::map<std::string, Run> ops{
      {"Identity", unary([](double x) { return x; })},
      {"Cast", unary([](double x) { return x; })},
      {"Abs", unary([](double x) { return std::abs(x); })},
      {"Erf", unary([](double x) { return std::erf(x); })},
      {"Relu", unary([](double x) { return std::max(x, 0.0); })},
      {"Sigmoid", unary([](double x) { return 1 / (1 + std::exp(-x)); })},
      {"Sqrt", unary([](double x) { return std::sqrt(x); })},
      {"Tanh", unary([](double x) { return std::tanh(x); })},
      {"Add", binary(std::plus<>())},
      {"Sub", binary(std::minus<>())},
      {"Mul", binary(std::multiplies<>())},
      {"Div", binary(std::divides<>())},
      {"And", binary(std::logical_and<>())},
      {"Equal", binary(std::equal_to<>())},
      {"Less", binary(std::less<>())},
      {"GreaterOrEqual", binary(std::greater_equal<>())},
      {"Where", one([](const OnnxNode&, const Inputs& in) { return where(in[0], in[1], in[2]); })},
      {"MatMul", one([](const OnnxNode&, const Inputs& in) { return matmul(in[0], in[1]); })},
      {"Softmax", one([](const OnnxNode&, const Inputs& in) { return each_row(in[0], softmax); })},
      {"LayerNormalization",
       one([](const OnnxNode& node, const Inputs& in) { return layer_norm(in, attribute(node, "epsilon")); })},
      {"ReduceMean", one([](const OnnxNode& node, const Inputs& in) {
         return node.attributes.at("axes").at(0) == 1 ? mean_of_first(in[0]) : mean_of_last(node, in);
       })},
      {"ReduceMax", one([](const OnnxNode&, const Inputs& in) { return largest_of_first(in[0]); })},
      {"ReduceSum", one([](const OnnxNode&, const Inputs& in) { return sums(in[0]); })},
      {"TopK", [](const OnnxNode&, const Inputs& in) { return topk(in[0], static_cast<int>(in[1].v[0])); }},
      {"Transpose",
       one([](const OnnxNode& node, const Inputs& in) { return transpose(in[0], node.attributes.at("perm")); })},
      {"Reshape", one([](const OnnxNode&, const Inputs& in) { return reshape(in[0], in[1].v); })},
      {"Expand", one([](const OnnxNode&, const Inputs& in) { return expand(in[0], in[1].v); })},
      {"Unsqueeze", one([](const OnnxNode&, const Inputs& in) { return unsqueeze(in[0], in[1].v); })},
      {"Squeeze", one([](const OnnxNode&, const Inputs& in) { return scalar(in[0].v.at(0)); })},
      {"Slice", one([](const OnnxNode&, const Inputs& in) {
         return slice(in[0], static_cast<int>(in[1].v[0]), static_cast<int>(in[2].v[0]), at(in[3].v[0], in[0].rank()));
       })},
      {"Split", [](const OnnxNode& node,
                   const Inputs& in) { return split(in[0], in[1].v, at(attribute(node, "axis"), in[0].rank())); }},
      {"Concat", one([](const OnnxNode& node, const Inputs& in) {
         return concat(in, at(attribute(node, "axis"), in[0].rank()));
       })},
      {"Gather", one([](const OnnxNode& node, const Inputs& in) {
         const double axis = node.attributes.contains("axis") ? attribute(node, "axis") : 0;
         return gather(in[0], in[1], at(axis, in[0].rank()));
       })},
      {"OneHot", one([](const OnnxNode&, const Inputs& in) { return one_hot(in[0], static_cast<int>(in[1].v[0])); })},
      {"Shape", one(shape_of)},
      {"Range", one([](const OnnxNode&, const Inputs& in) { return range(in); })},
  };
  return ops;
}

void check_sizes(const std::vector<std::string>& sizes, const Index& shape, std::map<std::string, int>& known) {
  BOOST_REQUIRE_EQUAL(sizes.size(), shape.size());
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (std::isdigit(sizes[i][0]))
      BOOST_CHECK_EQUAL(std::stoi(sizes[i]), shape[i]);
    else
      BOOST_CHECK_EQUAL(known.emplace(sizes[i], shape[i]).first->second, shape[i]);
  }
}

}  // namespace

std::map<std::string, OnnxArray> run_onnx(const OnnxFile& file, const std::map<std::string, OnnxArray>& inputs) {
  std::map<std::string, int> sizes;
  for (const auto& [name, array] : inputs) check_sizes(file.inputs.at(name), array.shape, sizes);
  BOOST_REQUIRE_EQUAL(inputs.size(), file.inputs.size());
  std::map<std::string, OnnxArray> values = file.constants;
  values.insert(inputs.begin(), inputs.end());
  for (const OnnxNode& node : file.nodes) {
    Inputs in;
    for (const std::string& name : node.inputs) {
      BOOST_REQUIRE_MESSAGE(values.contains(name), node.name << " uses " << name);
      in.push_back(values.at(name));
    }
    BOOST_REQUIRE_MESSAGE(table().contains(node.type), node.type << " is not known");
    const Outputs made = table().at(node.type)(node, in);
    BOOST_REQUIRE_EQUAL(made.size(), node.outputs.size());
    for (std::size_t i = 0; i < made.size(); ++i) values[node.outputs[i]] = made[i];
  }
  std::map<std::string, OnnxArray> results;
  for (const auto& [name, shape] : file.outputs) {
    results[name] = values.at(name);
    check_sizes(shape, results[name].shape, sizes);
  }
  return results;
}

}  // namespace test
