// Regions, observers and the tools built on them; and recovery when any op of a step throws.
// needs: precision: double; full: single
#include <seppo/autograd/core/region.h>
#include <seppo/autograd/ops.h>
#include <seppo/autograd/tools/anomaly.h>
#include <seppo/autograd/tools/checkpointing.h>
#include <seppo/autograd/tools/probe.h>
#include <seppo/autograd/tools/profile.h>
#include <seppo/models/transformer.h>

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <vector>

using namespace seppo;

namespace {

struct Model {
  Model() : transformer(parameters.root(), config()) {
    src.add(std::vector<int>{1, 2, 3});
    src.add(std::vector<int>{4, 5});
    tgt.add(std::vector<int>{1, 2});
    tgt.add(std::vector<int>{3, 4, 5});
  }
  static TransformerConfig config() {
    return {.src_vocabulary = 7,
            .tgt_vocabulary = 7,
            .layer = {.d_model = 8, .n_heads = 2, .d_ff = 12, .dropout = 0.1},
            .enc_layers = 2,
            .dec_layers = 2};
  }
  Tensor loss() const { return cross_entropy(transformer.logits(src, tgt), std::vector<int>{2, 3, 4, 5, 6}); }

  // Runs a step on a cleared tape and returns the gradients.
  std::vector<real> step() {
    tape().clear();
    tape().random = {.seed = 3, .step = 4};
    parameters.zero_gradients();
    tape().backward(loss());
    return {parameters.gradients().begin(), parameters.gradients().end()};
  }

  Parameters parameters{1};
  Transformer transformer;
  Ragged src, tgt;
};

template <class E>
std::string message(const std::function<void()>& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  return "no error";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_CASE(errors_name_the_module) {
  Parameters parameters(0);
  const FeedForward ffn(parameters.root() / "encoder" / 0 / "ffn", 4, 6);
  const std::string text = message<ShapeError>([&] { ffn(zeros({2, 3})); });
  BOOST_CHECK_MESSAGE(contains(text, "linear: inner sizes differ") && text.ends_with("(in encoder.0.ffn.up)"), text);
  BOOST_CHECK(current_region().empty());  // left by the exception
  const std::string outside = message<ShapeError>([&] { matmul(zeros({2, 3}), zeros({2, 3})); });
  BOOST_CHECK_MESSAGE(!contains(outside, "(in"), outside);
}

BOOST_AUTO_TEST_CASE(region_names_are_shared) {
  const RegionName a("x.y"), b(std::string("x.") + "y"), none("");
  BOOST_CHECK_EQUAL(&a.text(), &b.text());
  BOOST_CHECK(none.empty() && none.text().empty() && !a.empty());
  for (int i = 0; i < 1000; ++i) BOOST_CHECK_NE(&RegionName("x." + std::to_string(i)).text(), &a.text());
  BOOST_CHECK(RegionName("x.y").text() == "x.y" && &RegionName("x.y").text() == &a.text());
}

BOOST_AUTO_TEST_CASE(probes_see_outputs_and_gradients_of_modules) {
  Model model;
  tape().clear();
  std::map<std::string, Tensor> seen;
  Probe probe([&](const std::string& module, const Tensor& y) { seen[module] = y.retain_grad(); });
  {
    const Observe scope(probe);
    tape().backward(model.loss());
  }
  for (const char* name :
       {"encoder", "encoder.0", "encoder.1.self_attn", "encoder.0.self_attn.in_proj", "encoder.1.ffn",
        "encoder.0.ffn.up", "encoder.0.norm1", "decoder.1", "decoder.0.cross_attn", "output"})
    BOOST_CHECK_MESSAGE(seen.count(name), name << " was not seen");
  const Tensor ffn = seen.at("encoder.1.ffn");
  BOOST_CHECK(ffn.shape() == (Shape{5, 8}));
  BOOST_CHECK(std::any_of(ffn.grad().begin(), ffn.grad().end(), [](real g) { return g != 0; }));
  // The gradient of the logits is that of cross-entropy, whose rows sum to 0.
  const Tensor logits = seen.at("output");
  for (std::size_t row = 0; row < logits.rows(); ++row) {
    real total = 0;
    for (std::size_t j = 0; j < logits.cols(); ++j) total += logits.grad()[row * logits.cols() + j];
    BOOST_CHECK_SMALL(static_cast<double>(total), sizeof(real) == sizeof(double) ? 1e-12 : 1e-6);
  }
  // Out of scope, the probe is no longer called.
  seen.clear();
  model.step();
  BOOST_CHECK(seen.empty());
}

BOOST_AUTO_TEST_CASE(observers_nest) {
  int outer = 0, inner = 0;
  Probe first([&](const std::string&, const Tensor&) { ++outer; }),
      second([&](const std::string&, const Tensor&) { ++inner; });
  const Region region(RegionName("r"));
  const Observe a(first);
  {
    const Observe b(second);
    region(zeros({1}));
  }
  region(zeros({1}));
  BOOST_CHECK(outer == 2 && inner == 1);
}

BOOST_AUTO_TEST_CASE(anomalies_are_named_forward) {
  FindAnomaly finder;
  const Observe scope(finder);
  tape().clear();
  const Tensor x = variable({2, 2}, {1, 2, 0, 3});
  const Region here(RegionName("encoder.0"));
  const std::string text = message<NumericError>([&] { exp(log(x)); });
  BOOST_CHECK_EQUAL(text, "log: forward made -inf at [1,0] of [2,2], from finite inputs (in encoder.0)");
  const std::string nan = message<NumericError>([&] { sub(full({1}, 1), full({1}, 1) / tensor({1}, {0})); });
  BOOST_CHECK(contains(nan, "div: forward made inf at [0]"));
}

BOOST_AUTO_TEST_CASE(anomalies_are_named_backward) {
  tape().clear();
  const Tensor x = variable({2}, {2, 0});
  FindAnomaly finder;
  const Observe scope(finder);
  const Tensor y = scale(seppo::sqrt(square(x)), 3);  // finite, but with an infinite slope, and NaN one op further
  const std::string text = message<NumericError>([&] { tape().backward(y, std::vector<real>{1, 1}); });
  BOOST_CHECK_EQUAL(text, "sqrt: backward made inf in the gradient of input 0 [2] at [1]");
}

BOOST_AUTO_TEST_CASE(nothing_is_found_where_nothing_is_wrong) {
  Model model;
  const auto expected = model.step();
  FindAnomaly finder;
  const Observe scope(finder);
  BOOST_CHECK(model.step() == expected);
  // An infinity planted in one weight is reported where it first shows.
  const Tensor weight = model.transformer.encoder.layers[1].ffn.up.weight;
  weight.data()[3] = std::numeric_limits<real>::infinity();
  const std::string text = message<NumericError>([&] { model.step(); });
  BOOST_CHECK_MESSAGE(contains(text, "linear: forward made") && contains(text, "(in encoder.1.ffn.up)"), text);
}

BOOST_AUTO_TEST_CASE(the_profile_counts_calls_and_bytes) {
  tape().clear();
  const Tensor a = variable({100, 200}, std::vector<real>(20'000, 1)),
               b = variable({200, 50}, std::vector<real>(10'000, 1));
  const auto start = std::chrono::steady_clock::now();
  Profile profile;
  {
    const Observe scope(profile);
    const Tensor y = matmul(a, b);
    tape().backward(sum(y * y));
    reshape(y, {-1});
  }
  std::map<std::string, Profile::Entry> by_op;
  double total_ms = 0;
  double before = std::numeric_limits<double>::infinity();
  for (const auto& entry : profile.entries()) {
    BOOST_CHECK_LE(entry.forward_ms + entry.backward_ms, before);
    before = entry.forward_ms + entry.backward_ms;
    by_op[entry.op] = entry;
    total_ms += entry.forward_ms + entry.backward_ms;
  }
  const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
  BOOST_CHECK(total_ms > 0 && total_ms <= elapsed.count());
  BOOST_CHECK_EQUAL(by_op.at("matmul").calls, 1);
  BOOST_CHECK_EQUAL(by_op.at("matmul").bytes, 3 * (20'000 + 10'000 + 5'000) * sizeof(real));
  BOOST_CHECK_EQUAL(by_op.at("mul").calls, 1);
  BOOST_CHECK_EQUAL(by_op.at("view").bytes, 2 * 5'000 * sizeof(real));
  BOOST_CHECK_GT(by_op.at("matmul").forward_ms, 0);
  BOOST_CHECK_GT(by_op.at("matmul").backward_ms, 0);
  const std::string table = profile.table();
  BOOST_CHECK(contains(table, "matmul"));
  double shares = 0;
  for (std::size_t at = table.find('%'); at != std::string::npos; at = table.find('%', at + 1))
    shares += std::stod(table.substr(at - 6, 6));
  BOOST_CHECK_SMALL(shares - 100, 0.5);

  const auto trace = nlohmann::json::parse(profile.chrome_trace());
  std::multiset<std::string> names;
  double end = 0;  // of the op before, in microseconds; ops of one thread follow each other
  for (const auto& event : trace.at("traceEvents")) {
    BOOST_CHECK_GE(event.at("ts").get<double>(), end - 1e-3);
    end = event.at("ts").get<double>() + event.at("dur").get<double>();
    names.insert(event.at("name").get<std::string>() + " " + event.at("cat").get<std::string>());
    BOOST_CHECK(event.at("ph") == "X" && event.at("dur").get<double>() >= 0);
  }
  BOOST_CHECK_LE(end, 1000 * elapsed.count());
  BOOST_CHECK((names == std::multiset<std::string>{"matmul forward", "mul forward", "sum forward", "view forward",
                                                   "sum backward", "mul backward", "matmul backward"}));
}

// ---- throwing everywhere -------------------------------------------------------------------------

namespace {

// Throws at the n-th event it sees.
struct Saboteur : Observer {
  explicit Saboteur(int n) : left(n) {}
  void count() {
    if (left-- == 0) throw std::runtime_error("sabotage");
  }
  void forward(const Tensor&, std::span<const Tensor>) override { count(); }
  void backward_begins(const Tensor&) override { count(); }
  void backward(const Tensor&) override { count(); }
  int left;
};

}  // namespace

// Throws at every op of a step of a two-layer Transformer, forward and backward: the next step is not affected.
BOOST_AUTO_TEST_CASE(a_throw_anywhere_leaves_the_engine_whole) {
  Model model;
  const auto expected = model.step();
  const std::vector<real> values(model.parameters.values().begin(), model.parameters.values().end());
  int points = 0;
  for (bool thrown = true; thrown; ++points) {
    Saboteur saboteur(points);
    thrown = false;
    try {
      const Observe scope(saboteur);
      model.step();
    } catch (const std::runtime_error&) {
      thrown = true;
    }
    BOOST_CHECK(current_region().empty());
    BOOST_CHECK(std::equal(values.begin(), values.end(), model.parameters.values().begin()));
    if (thrown) BOOST_REQUIRE(model.step() == expected);
  }
  BOOST_CHECK_GT(points, 120);
}

BOOST_AUTO_TEST_CASE(a_throw_within_a_checkpoint_too) {
  const auto gradient = [] {
    tape().clear();
    const Tensor x = variable({3}, {1, 2, 3});
    const Tensor y = checkpoint({x}, [](std::span<const Tensor> in) { return exp(seppo::tanh(in[0])); });
    tape().backward(y, std::vector<real>{1, 2, 3});
    return std::vector<real>(x.grad().begin(), x.grad().end());
  };
  const auto expected = gradient();
  for (int n = 0; n < 9; ++n) {
    Saboteur saboteur(n);
    {
      const Observe scope(saboteur);
      BOOST_CHECK_THROW(gradient(), std::runtime_error);
    }
    BOOST_CHECK(gradient() == expected);
  }
}

// The gradient of a power of a negative base is not finite in the exponent, but finite in the base.
BOOST_AUTO_TEST_CASE(the_anomalous_input_is_named) {
  FindAnomaly anomaly;
  const Observe scope(anomaly);
  const Tensor base = variable({2}, {-1, 2}), exponent = variable({2}, {2, 2});
  const std::string text = message<Error>([&] { tape().backward(sum(pow(base, exponent))); });
  BOOST_CHECK_MESSAGE(contains(text, "pow: backward made NaN in the gradient of input 1 ") && contains(text, " at [0]"),
                      text);
}

// So is one behind an input that needs no gradient.
BOOST_AUTO_TEST_CASE(an_anomaly_behind_a_constant_is_found) {
  FindAnomaly anomaly;
  const Observe scope(anomaly);
  const Tensor base = tensor({2}, {-1, 2}), exponent = variable({2}, {2, 2});
  const std::string text = message<Error>([&] { tape().backward(sum(pow(base, exponent))); });
  BOOST_CHECK_MESSAGE(contains(text, "pow: backward made NaN in the gradient of input 1 "), text);
}
