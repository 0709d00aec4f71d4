// Compares seppo with PyTorch's results, printed by torch_cases.py: reads them from standard input, one case per
// line, and exits with 1 if any differs. With --rows, prints the rows of the table of ops for torch_cases.py.
#include "modules.h"

#include "support/ops/table.h"

#include <seppo/autograd/ops.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

using namespace seppo;
using nlohmann::json;
using oracle::Values;

namespace {

using Inputs = std::span<const Tensor>;
using Op = std::function<Tensor(Inputs, const json& args)>;

std::vector<int> ints(const json& j) { return j.get<std::vector<int>>(); }

Axes axes_of(const json& args) {
  const std::vector<int> a = ints(args.at("axes"));
  switch (a.size()) {
    case 0:
      return {};
    case 1:
      return a[0];
    case 2:
      return {a[0], a[1]};
    case 3:
      return {a[0], a[1], a[2]};
    case 4:
      return {a[0], a[1], a[2], a[3]};
    default:
      return {a.at(0), a.at(1), a.at(2), a.at(3), a.at(4)};
  }
}

Tensor constant(const json& j) {
  const Values values(j);
  return tensor(values.shape, values.data);
}

Tensor optional_constant(const json& j) { return j.is_null() ? Tensor() : constant(j); }

Reduction reduction(const json& args) {
  const std::string name = args.at("reduction").get<std::string>();
  return name == "none" ? Reduction::none : name == "sum" ? Reduction::sum : Reduction::mean;
}

Tensor reversed(std::vector<Tensor> parts, int axis) {
  std::reverse(parts.begin(), parts.end());
  return concat(parts, axis);
}

template <class F>
Op unary(const F& f) {
  return [f](Inputs x, const json&) { return f(x[0]); };
}
template <class F>
Op binary(const F& f) {
  return [f](Inputs x, const json&) { return f(x[0], x[1]); };
}
template <class F>
Op reduced(const F& f) {
  return [f](Inputs x, const json& a) { return f(x[0], axes_of(a), a.at("keepdim").get<bool>()); };
}
template <class F>
Op along(const F& f) {
  return [f](Inputs x, const json& a) { return f(x[0], a.at("axis").get<int>()); };
}

// The replacements that docs/from-pytorch.md gives for ops that seppo lacks.
void add_compositions(std::map<std::string, Op>& ops) {
  ops["sign"] = unary([](const Tensor& x) { return gt(x, 0) - lt(x, 0); });
  ops["leaky_relu"] = [](Inputs x, const json& a) {
    return where(gt(x[0], 0), x[0], a.at("slope").get<real>() * x[0]);
  };
  ops["clamp_tensor"] = [](Inputs x, const json&) { return minimum(maximum(x[0], x[1]), x[2]); };
  ops["normalize"] = unary([](const Tensor& x) { return x / maximum(norm(x, 1, true), 1e-12); });
  ops["cdist"] = binary([](const Tensor& a, const Tensor& b) { return norm(unsqueeze(a, -2) - unsqueeze(b, -3), -1); });
  ops["cdist_squared"] = binary([](const Tensor& a, const Tensor& b) {
    return sum(square(a), -1, true) + transpose(sum(square(b), -1, true)) - 2 * matmul(a, transpose(b));
  });
  ops["attention_weights"] = binary([](const Tensor& q, const Tensor& k) {
    return softmax(matmul(q, transpose(k)) / std::sqrt(static_cast<real>(q.size(-1))), Mask::causal());
  });
  ops["l1_loss"] = [](Inputs x, const json& a) {
    const Tensor loss = seppo::abs(x[0] - x[1]);
    return reduction(a) == Reduction::none ? loss : reduction(a) == Reduction::sum ? sum(loss) : mean(loss);
  };
  ops["eye"] = [](Inputs, const json& a) {
    const int n = a.at("n").get<int>();
    return tril(triu(ones({n, n})));
  };
  ops["repeat_interleave"] = [](Inputs x, const json& a) {
    const int n = a.at("n").get<int>(), rows = x[0].size(0), cols = x[0].size(1);
    return reshape(expand(unsqueeze(x[0], 2), {rows, cols, n}), {rows, cols * n});
  };
  ops["roll"] = [](Inputs x, const json& a) {
    const int axis = a.at("axis").get<int>(), n = x[0].size(axis),
              k = n == 0 ? 0 : n - (a.at("shift").get<int>() % n + n) % n;
    return concat({slice(x[0], axis, k, n), slice(x[0], axis, 0, k)}, axis);
  };
  ops["pad"] = [](Inputs x, const json& a) {
    const int axis = a.at("axis").get<int>();
    const auto side = [&](const char* name) {
      return full(x[0].shape().with(axis, a.at(name).get<int>()), a.at("value").get<real>());
    };
    return concat({side("before"), x[0], side("after")}, axis);
  };
  ops["segment_sum"] = [](Inputs x, const json& a) {
    return index_add(zeros(x[0].shape().with(0, a.at("n").get<int>())), 0, ints(a.at("ids")), x[0]);
  };
}

// Ops without arguments beside tensors.
const char* const kPlain[] = {"relu", "gelu",  "gelu_tanh", "silu",    "sigmoid", "softplus", "tanh",
                              "exp",  "expm1", "log",       "log1p",   "sqrt",    "rsqrt",    "erf",
                              "sin",  "cos",   "neg",       "abs",     "square",  "add",      "sub",
                              "mul",  "div",   "pow",       "maximum", "minimum"};

std::map<std::string, Op> catalogue() {
  std::map<std::string, Op> ops;
  for (const test::OpRow& row : test::ops_table())
    ops["row " + row.name] = [cases = test::typical_cases(row)](Inputs x, const json& a) {
      return cases.at(a.at("case").get<std::size_t>()).op(x);
    };
  for (const char* name : kPlain)  // for PyTorch's own samples
    ops[name] = [op = ops.at(std::string("row ") + name)](Inputs x, const json&) { return op(x, {{"case", 0}}); };
  ops["matmul"] = binary(matmul);
  ops["pow_number"] = [](Inputs x, const json& a) { return seppo::pow(x[0], a.at("exponent").get<real>()); };
  ops["clamp"] = [](Inputs x, const json& a) { return clamp(x[0], a.at("low").get<real>(), a.at("high").get<real>()); };
  ops["where"] = [](Inputs x, const json& a) { return where(constant(a.at("condition")), x[0], x[1]); };
  ops["masked_fill"] = [](Inputs x, const json& a) {
    return masked_fill(x[0], constant(a.at("mask")), a.at("value").get<real>());
  };
  ops["einsum"] = [](Inputs x, const json& a) {
    const std::string equation = a.at("equation").get<std::string>();
    return x.size() == 1 ? einsum(equation, x[0]) : einsum(equation, x[0], x[1]);
  };
  ops["floor"] = unary([](const Tensor& x) { return seppo::floor(x); });
  ops["trunc"] = unary([](const Tensor& x) { return seppo::trunc(x); });
  ops["round"] = unary([](const Tensor& x) { return seppo::round(x); });
  ops["elu"] = [](Inputs x, const json& a) { return elu(x[0], a.at("alpha").get<real>()); };
  add_compositions(ops);
  ops["linear"] = [](Inputs x, const json&) { return linear(x[0], x[1], x.size() > 2 ? x[2] : Tensor()); };

  ops["sum"] = reduced([](const Tensor& x, const Axes& axes, bool keep) { return sum(x, axes, keep); });
  ops["mean"] = reduced([](const Tensor& x, const Axes& axes, bool keep) { return mean(x, axes, keep); });
  ops["prod"] = reduced([](const Tensor& x, const Axes& axes, bool keep) { return prod(x, axes, keep); });
  ops["amax"] = reduced([](const Tensor& x, const Axes& axes, bool keep) { return amax(x, axes, keep); });
  ops["amin"] = reduced([](const Tensor& x, const Axes& axes, bool keep) { return amin(x, axes, keep); });
  ops["logsumexp"] = reduced([](const Tensor& x, const Axes& axes, bool keep) { return logsumexp(x, axes, keep); });
  ops["var"] = [](Inputs x, const json& a) {
    return var(x[0], axes_of(a), a.at("correction").get<double>(), a.at("keepdim").get<bool>());
  };
  ops["std"] = [](Inputs x, const json& a) {
    return stddev(x[0], axes_of(a), a.at("correction").get<double>(), a.at("keepdim").get<bool>());
  };
  ops["norm"] = reduced([](const Tensor& x, const Axes& axes, bool keep) { return norm(x, axes, keep); });
  ops["topk"] = [](Inputs x, const json& a) {
    return topk(x[0], a.at("k").get<int>(), a.at("axis").get<int>(), a.at("largest").get<bool>()).values;
  };
  ops["unfold"] = [](Inputs x, const json& a) {
    return unfold(x[0], a.at("axis").get<int>(), a.at("size").get<int>(), a.at("step").get<int>());
  };
  ops["cumsum"] = along(cumsum);
  ops["arange"] = [](Inputs, const json& a) { return arange(a.at("start"), a.at("end"), a.at("step")); };
  ops["softmax"] = along([](const Tensor& x, int axis) { return softmax(x, axis); });
  ops["log_softmax"] = along([](const Tensor& x, int axis) { return log_softmax(x, axis); });
  ops["squeeze"] =
      along([](const Tensor& x, int axis) { return x.rank() == 0 || x.size(axis) == 1 ? squeeze(x, axis) : x; });
  ops["unsqueeze"] = along(unsqueeze);

  ops["transpose"] = [](Inputs x, const json& a) {
    return transpose(x[0], a.at("a").get<int>(), a.at("b").get<int>());
  };
  ops["permute"] = [](Inputs x, const json& a) { return permute(x[0], ints(a.at("sizes"))); };
  ops["reshape"] = [](Inputs x, const json& a) {
    std::vector<int> sizes = ints(a.at("sizes"));
    std::int64_t known = 1;
    for (const int size : sizes) known *= size < 0 ? 1 : size;
    for (int& size : sizes)
      if (size < 0) size = static_cast<int>(x[0].shape().numel() / known);
    return reshape(x[0], Shape(std::span<const int>(sizes)));
  };
  ops["expand"] = [](Inputs x, const json& a) {
    std::vector<int> sizes = ints(a.at("sizes"));
    for (std::size_t i = 0; i < sizes.size(); ++i)
      if (sizes[i] < 0) sizes[i] = x[0].size(static_cast<int>(i) - static_cast<int>(sizes.size()));
    return expand(x[0], Shape(std::span<const int>(sizes)));
  };
  ops["flip"] = [](Inputs x, const json& a) { return flip(x[0], axes_of(a)); };
  ops["tril"] = [](Inputs x, const json& a) { return tril(x[0], a.at("diagonal").get<int>()); };
  ops["triu"] = [](Inputs x, const json& a) { return triu(x[0], a.at("diagonal").get<int>()); };
  ops["narrow"] = [](Inputs x, const json& a) {
    const int axis = a.at("axis").get<int>(), size = x[0].size(axis), start = a.at("start").get<int>();
    const int begin = start < 0 ? start + size : start;
    return slice(x[0], axis, start, begin + a.at("length").get<int>());
  };
  ops["cat"] = [](Inputs x, const json& a) { return concat(x, a.at("axis").get<int>()); };
  ops["stack"] = [](Inputs x, const json& a) { return stack(x, a.at("axis").get<int>()); };
  ops["split"] = [](Inputs x, const json& a) {
    const int axis = a.at("axis").get<int>();
    const json& size = a.at("size");
    return reversed(size.is_array() ? split(x[0], ints(size), axis) : split(x[0], size.get<int>(), axis), axis);
  };
  ops["chunk"] = [](Inputs x, const json& a) {
    const int axis = a.at("axis").get<int>();
    return reversed(chunk(x[0], a.at("size").get<int>(), axis), axis);
  };

  ops["gather"] = [](Inputs x, const json& a) {
    const auto indices = ints(a.at("indices")), shape = ints(a.at("shape"));
    return gather(x[0], a.at("axis").get<int>(), {Shape(std::span<const int>(shape)), indices});
  };
  ops["scatter_add"] = [](Inputs x, const json& a) {
    const auto indices = ints(a.at("indices")), shape = ints(a.at("shape"));
    return scatter_add(x[0], a.at("axis").get<int>(), {Shape(std::span<const int>(shape)), indices}, x[1]);
  };
  ops["index_select"] = [](Inputs x, const json& a) {
    return index_select(x[0], a.at("axis").get<int>(), ints(a.at("indices")));
  };
  ops["index_add"] = [](Inputs x, const json& a) {
    return index_add(x[0], a.at("axis").get<int>(), ints(a.at("indices")), x[1]);
  };
  ops["index_amax"] = [](Inputs x, const json& a) {
    return index_amax(x[0], a.at("axis").get<int>(), ints(a.at("indices")), x[1]);
  };
  ops["capped_attention"] = [](Inputs x, const json& a) {
    return attention(x[0], x[1], x[2], a.at("heads").get<int>(), {.bias = x[3], .softcap = a.at("cap").get<double>()});
  };
  ops["layer_norm"] = [](Inputs x, const json& a) {
    return layer_norm(x[0], x[1], x[2], a.at("epsilon").get<double>());
  };
  ops["rms_norm"] = [](Inputs x, const json& a) { return rms_norm(x[0], x[1], a.at("epsilon").get<double>()); };
  ops["batch_norm"] = [](Inputs x, const json& a) {
    const auto mean = a.at("mean").get<std::vector<real>>(), var = a.at("var").get<std::vector<real>>();
    const int n = static_cast<int>(mean.size());
    return batch_norm(x[0], x[1], x[2], tensor({n}, mean), tensor({n}, var),
                      {.eps = a.at("epsilon").get<double>(), .use_running_statistics = !a.at("training").get<bool>()});
  };
  const auto cross_entropy_options = [](const json& a) {
    return CrossEntropyOptions{a.at("smoothing").get<double>(), a.at("ignored").get<int>(), reduction(a),
                               optional_constant(a.at("weight")), a.at("axis").get<int>()};
  };
  ops["cross_entropy"] = [=](Inputs x, const json& a) {
    return cross_entropy(x[0], ints(a.at("targets")), cross_entropy_options(a));
  };
  ops["soft_cross_entropy"] = [=](Inputs x, const json& a) {
    return cross_entropy(x[0], x[1], cross_entropy_options(a));
  };
  ops["nll_loss"] = [](Inputs x, const json& a) {
    return nll_loss(
        x[0], ints(a.at("targets")),
        {a.at("ignored").get<int>(), reduction(a), optional_constant(a.at("weight")), a.at("axis").get<int>()});
  };
  ops["mse_loss"] = [](Inputs x, const json& a) { return mse_loss(x[0], x[1], reduction(a)); };
  ops["huber_loss"] = [](Inputs x, const json& a) {
    return huber_loss(x[0], x[1], a.at("delta").is_null() ? 1 : a.at("delta").get<double>(), reduction(a));
  };
  ops["binary_cross_entropy_with_logits"] = [](Inputs x, const json& a) {
    return binary_cross_entropy_with_logits(x[0], x[1],
                                            {.reduction = reduction(a),
                                             .weight = optional_constant(a.at("weight")),
                                             .pos_weight = optional_constant(a.at("pos_weight"))});
  };
  ops["cosine_similarity"] = [](Inputs x, const json& a) {
    return cosine_similarity(x[0], x[1], a.at("axis").get<int>());
  };
  return ops;
}

void check_op(const Op& op, const json& c) {
  tape().clear();
  std::vector<Tensor> inputs;
  for (const json& j : c.at("inputs")) {
    const Values values(j);
    inputs.push_back(variable(values.shape, values.data));
  }
  const Tensor y = op(inputs, c.at("args"));
  const Values expected(c.at("output"));
  if (y.shape() != expected.shape)
    throw std::runtime_error("shape " + y.shape().str() + ", PyTorch's is " + expected.shape.str());
  oracle::compare("output", y.values(), expected.data, 1e-12);
  if (y.requires_grad()) tape().backward(y, c.at("cotangent").get<std::vector<real>>());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::vector<real> none(inputs[i].numel());  // where no gradient flows
    oracle::compare("gradient " + std::to_string(i), inputs[i].node().grad ? inputs[i].grad() : none,
                    c.at("gradients").at(i).get<std::vector<real>>(), 1e-11);
  }
}

}  // namespace

// For torch_cases.py: the rows of the table of ops, each with its formula in PyTorch.
void print_rows() {
  json rows = json::array();
  for (const test::OpRow& row : test::ops_table()) {
    const std::vector<test::OpCase> cases = test::typical_cases(row);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const test::OpCase& c = cases[i];
      if (c.torch.empty() || !c.fits) continue;
      json shapes = json::array();
      for (const Shape& shape : c.shapes)
        shapes.push_back(std::vector<int>(shape.sizes().begin(), shape.sizes().end()));
      rows.push_back({{"op", "row " + row.name},
                      {"case", i},
                      {"torch", c.torch},
                      {"shapes", shapes},
                      {"low", c.options.low},
                      {"high", c.options.high}});
    }
  }
  std::cout << rows << "\n";
}

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "--rows") {
    print_rows();
    return 0;
  }
  const auto ops = catalogue();
  std::map<std::string, int> agreed;
  int failed = 0, total = 0;
  for (std::string line; std::getline(std::cin, line); ++total) {
    const json c = json::parse(line);
    const std::string name = c.at("op").get<std::string>();
    try {
      if (const auto op = ops.find(name); op != ops.end())
        check_op(op->second, c);
      else
        oracle::check_module(name, c);
      ++agreed[name];
    } catch (const std::exception& e) {
      ++failed;
      std::cout << "case " << total + 1 << ", " << name << " " << c.at("args").dump().substr(0, 200) << ": " << e.what()
                << "\n";
    }
  }
  std::cout << total - failed << " of " << total << " cases agree with PyTorch, of " << agreed.size() << " kinds\n";
  return failed == 0 && total > 0 ? 0 : 1;
}
