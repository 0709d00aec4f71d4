// The modules and models that PyTorch has, too: built with its weights, run on its inputs.
#include "modules.h"

#include <seppo/autograd/ops.h>
#include <seppo/models/transformer.h>
#include <seppo/nn/optim/adagrad.h>
#include <seppo/nn/optim/adam.h>
#include <seppo/nn/optim/schedule.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>

namespace oracle {

using namespace seppo;
using nlohmann::json;

Values::Values(const json& j) : data(j.at("data").get<std::vector<real>>()) {
  const auto sizes = j.at("shape").get<std::vector<int>>();
  shape = Shape(std::span<const int>(sizes));
}

void compare(const std::string& what, std::span<const real> actual, std::span<const real> expected, double tolerance) {
  if (actual.size() != expected.size()) throw std::runtime_error(what + " has another size");
  double largest = 0;
  for (const real e : expected) largest = std::max(largest, std::abs(static_cast<double>(e)));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double e = static_cast<double>(expected[i]), a = static_cast<double>(actual[i]);
    if (std::abs(a - e) <= tolerance * std::max({std::abs(e), 1e-3 * largest, 0.1})) continue;
    std::ostringstream text;
    text.precision(17);
    text << what << "[" << i << "] is " << a << ", PyTorch's " << e;
    throw std::runtime_error(text.str());
  }
}

namespace {

std::vector<int> offsets_of(const json& lengths) {
  std::vector<int> offsets{0};
  for (const int length : lengths.get<std::vector<int>>()) offsets.push_back(offsets.back() + length);
  return offsets;
}

LayerConfig config_of(int d_model, const json& args) {
  return {.d_model = d_model,
          .n_heads = args.at("heads").get<int>(),
          .d_ff = args.at("ff").get<int>(),
          .dropout = 0,
          .norm = args.at("pre").get<bool>() ? Norm::pre : Norm::post,
          .activation = args.at("activation") == "gelu" ? Activation::gelu : Activation::relu};
}

// nn.Transformer: both stacks, on inputs that are already embedded; with an output layer if requested.
struct Stacks {
  Stacks(const Scope& s, int d_model, const json& args, int classes) {
    const LayerConfig config = config_of(d_model, args);
    const int layers = args.at("layers").get<int>();
    encoder.emplace(s / "encoder", layers, config);
    decoder.emplace(s / "decoder", layers, config);
    if (classes > 0) output.emplace(s / "output", d_model, classes);
  }
  Tensor operator()(const Tensor& src, Offsets src_rows, const Tensor& tgt, Offsets tgt_rows) const {
    const Tensor y = (*decoder)(tgt, tgt_rows, (*encoder)(src, src_rows), src_rows);
    return output ? (*output)(y) : y;
  }
  std::optional<Encoder> encoder;
  std::optional<Decoder> decoder;
  std::optional<Linear> output;
};

}  // namespace

Call make(const std::string& name, const Scope& s, int d_model, const json& args) {
  const auto rows = std::make_shared<std::vector<std::vector<int>>>();
  for (const json& lengths : args.at("lengths")) rows->push_back(offsets_of(lengths));
  if (name.ends_with("_attention")) {
    const auto attention = std::make_shared<MultiHeadAttention>(s, d_model, args.at("heads").get<int>());
    if (name == "cross_attention")
      return [=](std::span<const Tensor> x) { return (*attention)(x[1], (*rows)[1], x[0], (*rows)[0]); };
    const Mask mask = name == "causal_attention" ? Mask::causal() : Mask::none();
    return [=](std::span<const Tensor> x) { return (*attention)(x[0], (*rows)[0], {.mask = mask}); };
  }
  if (name == "three_inputs") {
    const auto attention =
        std::make_shared<MultiHeadAttention>(s, 8, 2, MultiHeadAttentionOptions{.bias = false, .k_dim = 5, .v_dim = 7});
    const auto near = std::make_shared<Values>(args.at("near"));
    return [=](std::span<const Tensor> x) {
      return (*attention)(x[2], (*rows)[2], x[0], x[1], (*rows)[0], {.bias = tensor(near->shape, near->data)});
    };
  }
  if (name == "encoder_layer") {
    const auto layer = std::make_shared<EncoderLayer>(s, config_of(d_model, args));
    return [=](std::span<const Tensor> x) { return (*layer)(x[0], (*rows)[0]); };
  }
  if (name == "decoder_layer") {
    const auto layer = std::make_shared<DecoderLayer>(s, config_of(d_model, args));
    return [=](std::span<const Tensor> x) { return (*layer)(x[1], (*rows)[1], x[0], (*rows)[0]); };
  }
  if (name == "transformer" || name == "float32") {
    const bool has_output = name == "float32";
    const auto stacks = std::make_shared<Stacks>(s, d_model, args, has_output ? 50 : 0);
    const auto targets = has_output ? args.at("targets").get<std::vector<int>>() : std::vector<int>{};
    return [=](std::span<const Tensor> x) {
      const Tensor y = (*stacks)(x[0], (*rows)[0], x[1], (*rows)[1]);
      return has_output ? cross_entropy(y, targets) : y;
    };
  }
  throw std::runtime_error("seppo has nothing of this name");
}

namespace {

void set_parameters(Parameters& parameters, const json& values) {
  if (parameters.entries().size() != values.size()) throw std::runtime_error("another number of parameters");
  for (const auto& entry : parameters.entries()) {
    const Values given(values.at(entry.name));
    if (given.shape != entry.shape) throw std::runtime_error(entry.name + " has another shape");
    std::copy(given.data.begin(), given.data.end(),
              parameters.edit().begin() + static_cast<std::ptrdiff_t>(entry.offset));
  }
}

std::span<const real> gradient_of(const Parameters& parameters, const Parameters::Entry& entry) {
  return parameters.gradients().subspan(entry.offset, entry.size());
}

// The error of all gradients together, relative to their norm: no larger than PyTorch's own, or than 4.5e-7.
void check_float32(const Parameters& parameters, const json& c) {
  double error = 0, norm = 0;
  for (const auto& entry : parameters.entries()) {
    const auto exact = c.at("parameter_gradients").at(entry.name).get<std::vector<double>>();
    const auto own = gradient_of(parameters, entry);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      error += std::pow(static_cast<double>(own[i]) - exact[i], 2);
      norm += exact[i] * exact[i];
    }
  }
  const double relative = std::sqrt(error / norm), theirs = c.at("args").at("torch_error").get<double>();
  std::cout << "error of single-precision gradients: " << relative << ", PyTorch's " << theirs << "\n";
  if (relative > std::max(theirs, 4.5e-7)) throw std::runtime_error("less exact than PyTorch");
}

// Takes the case's steps with the optimiser that make(parameters) returns.
template <class F>
void check_optimiser(const json& c, F make) {
  const json& args = c.at("args");
  const Values start(c.at("inputs").at(0)), gradients(c.at("inputs").at(1));
  Parameters parameters(0);
  parameters.root().parameter("p", start.shape, [&](std::span<real> values, const Shape&, RandomStream&) {
    std::copy(start.data.begin(), start.data.end(), values.begin());
  });
  auto optimiser = make(parameters);
  const std::size_t n = start.data.size();
  for (std::size_t step = 0; step < args.at("steps").get<std::size_t>(); ++step) {
    std::copy_n(gradients.data.begin() + static_cast<std::ptrdiff_t>(step * n), n, parameters.gradients().begin());
    optimiser.step(args.at("lr").get<double>());
  }
  compare("parameters", parameters.values().first(n), Values(c.at("output")).data, 1e-11);
}

void check_adam(const json& c) {
  const AdamConfig config{.betas = {0.9, 0.98},
                          .eps = 1e-9,
                          .weight_decay = c.at("args").at("decay").get<double>(),
                          .decoupled = c.at("args").at("decoupled").get<bool>()};
  check_optimiser(c, [&](Parameters& parameters) { return Adam(parameters, config); });
}

void check_adagrad(const json& c) {
  const AdagradConfig config{.eps = c.at("args").at("eps").get<double>(),
                             .initial = c.at("args").at("initial_accumulator_value").get<double>(),
                             .weight_decay = c.at("args").at("weight_decay").get<double>()};
  check_optimiser(c, [&](Parameters& parameters) { return Adagrad(parameters, config); });
}

void check_one_cycle(const json& c) {
  const json& args = c.at("args");
  const OneCycle cycle{.lr = 0.3,
                       .steps = args.at("steps").get<std::int64_t>(),
                       .rise = args.at("rise").get<double>(),
                       .start = args.at("start").get<double>(),
                       .end = args.at("end").get<double>()};
  std::vector<real> rates;
  for (std::int64_t step = 1; step <= cycle.steps; ++step) rates.push_back(static_cast<real>(cycle(step)));
  compare("rates", rates, Values(c.at("output")).data, 1e-11);
}

void check_schedule(const json& c) {
  const std::string name = c.at("args").at("name").get<std::string>();
  const auto steps = c.at("args").at("steps").get<std::int64_t>();
  using enum ScheduleKind;
  const Schedule schedule = name == "cosine"   ? Schedule{cosine, 0.3, 0.02, 0, steps}
                            : name == "linear" ? Schedule{linear, 0.3, 0.03, 0, steps}
                                               : Schedule{noam, 1 / std::sqrt(64.0 * 20), 0, 20};
  std::vector<real> rates;
  for (std::int64_t step = 1; step <= steps; ++step) rates.push_back(static_cast<real>(schedule(step)));
  compare("rates", rates, Values(c.at("output")).data, 1e-11);
}

}  // namespace

void check_module(const std::string& name, const json& c) {
  if (name == "adam") return check_adam(c);
  if (name == "adagrad") return check_adagrad(c);
  if (name == "schedule") return check_schedule(c);
  if (name == "one_cycle") return check_one_cycle(c);
  tape().clear();
  std::vector<Tensor> inputs;
  for (const json& j : c.at("inputs")) {
    const Values values(j);
    inputs.push_back(variable(values.shape, values.data));
  }
  Parameters parameters(0);
  const Call call = make(name, parameters.root(), inputs[0].size(-1), c.at("args"));
  set_parameters(parameters, c.at("parameters"));
  const Tensor y = call(inputs);
  if (name == "float32") {
    tape().backward(y);
    return check_float32(parameters, c);
  }
  compare("output", y.values(), Values(c.at("output")).data, 1e-12);
  tape().backward(y, c.at("cotangent").get<std::vector<real>>());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    compare("gradient " + std::to_string(i), inputs[i].grad(), c.at("gradients").at(i).get<std::vector<real>>(), 1e-11);
  for (const auto& entry : parameters.entries())
    compare("gradient of " + entry.name, gradient_of(parameters, entry),
            c.at("parameter_gradients").at(entry.name).get<std::vector<real>>(), 1e-11);
}

}  // namespace oracle
