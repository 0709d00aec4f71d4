// The steps of a computation: what a Probe sees of the modules, and the textbook's formulas between them.
// needs: programs: addsub
#include "addsub/model.h"
#include "app/steps.h"

#include <seppo/autograd/core/guards.h>
#include <seppo/autograd/tools/probe.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

using namespace examples;
using seppo::Parameters;
using seppo::Ragged;
using seppo::Tensor;

namespace {

addsub::ModelConfig config_of(seppo::Norm norm, int heads, int kv_heads) {
  addsub::ModelConfig config;
  config.transformer.layer.d_model = 8;
  config.transformer.layer.n_heads = heads;
  config.transformer.layer.n_kv_heads = kv_heads;
  config.transformer.layer.d_ff = 6;
  config.transformer.layer.norm = norm;
  config.transformer.enc_layers = 1;
  config.transformer.dec_layers = 2;
  return config;
}

const Ragged kSource = Ragged::of({{14, 10, 4, 8, 13, 10, 2, 7, 15}}), kRead = Ragged::of({{14, 10, 2, 1}});

void check_close(const Numbers& found, std::span<const double> expected, double tolerance, const std::string& what) {
  BOOST_REQUIRE_MESSAGE(found.values.size() == expected.size(), what);
  for (std::size_t i = 0; i < expected.size(); ++i)
    BOOST_CHECK_MESSAGE(std::abs(found.values[i] - expected[i]) <= tolerance,
                        what << ": " << found.values[i] << " is not " << expected[i]);
}

// What a pass records, and what a Probe sees of its modules.
struct Recorded {
  StepRecorder recorder{{.activation = "relu"}};
  std::map<std::string, std::vector<double>> seen;

  explicit Recorded(const addsub::Model& model) {
    seppo::Probe probe(
        [&](const std::string& module, const Tensor& y) { seen[module].assign(y.values().begin(), y.values().end()); });
    const seppo::UseMode eval(seppo::Mode::eval);
    const seppo::Observe steps(recorder), modules(probe);
    model.transformer.logits(kSource, kRead);
  }
  const Numbers& step(const std::string& box, const std::string& title) const {
    const auto is_it = [&](const Step& s) { return s.box == box && s.title == title; };
    const auto found = std::ranges::find_if(recorder.steps, is_it);
    BOOST_REQUIRE_MESSAGE(found != recorder.steps.end(), box << ": " << title);
    return found->numbers;
  }
};

// From Q, K and V of a head to its mixture, by the textbook. Heads in a row share one of K and V.
void check_head(const Recorded& pass, const std::string& module, std::size_t head, std::size_t heads) {
  const std::string box = module + " " + std::to_string(head);
  const Numbers &masked = pass.step(box, "masked"), &weights = pass.step(box, "softmax");
  const Numbers &all_k = pass.step(module, "K"), &all_v = pass.step(module, "V");
  const std::size_t width = 8 / heads, shared = heads * width / all_k.columns;
  const Numbers q = pass.step(module, "Q").some_columns(head * width, width);
  const Numbers k = all_k.some_columns(head / shared * width, width);
  const Numbers v = all_v.some_columns(head / shared * width, width);
  const Numbers mixed = pass.step(module, "heads side by side").some_columns(head * width, width);
  check_close(pass.step(box, "mixture of V"), mixed.values, 1e-6, box);
  for (std::size_t i = 0; i < masked.rows; ++i) {
    double sum = 0;
    for (const double score : masked.row(i)) sum += std::exp(score);
    for (std::size_t j = 0; j < masked.columns; ++j) {
      const bool is_masked = module == "decoder.1.self_attn" && j > i;
      BOOST_CHECK_EQUAL(masked.at(i, j) == -HUGE_VAL, is_masked);
      BOOST_CHECK_SMALL(weights.at(i, j) - std::exp(masked.at(i, j)) / sum, 1e-6);
      double product = 0;
      for (std::size_t c = 0; c < width; ++c) product += q.at(i, c) * k.at(j, c);
      BOOST_CHECK_SMALL(pass.step(box, "Q Kᵀ").at(i, j) - product, 1e-6);
      BOOST_CHECK_SMALL(pass.step(box, "divided by √d").at(i, j) - product / std::sqrt(width), 1e-6);
    }
    for (std::size_t c = 0; c < width; ++c) {
      double mixture = 0;
      for (std::size_t j = 0; j < masked.columns; ++j) mixture += weights.at(i, j) * v.at(j, c);
      BOOST_CHECK_SMALL(mixed.at(i, c) - mixture, 1e-6);
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(steps_are_what_a_probe_sees) {
  for (const auto& [norm, heads, kv_heads] : {std::tuple{seppo::Norm::post, 2, 0}, {seppo::Norm::pre, 4, 2}}) {
    Parameters parameters(3);
    const addsub::Model model(parameters.root(), config_of(norm, heads, kv_heads));
    Recorded pass(model);
    for (const std::string module : {"encoder.0.self_attn", "decoder.1.self_attn", "decoder.1.cross_attn"}) {
      check_close(pass.step(module, "output map"), pass.seen[module], 1e-6, module);
      for (std::size_t head = 0; head < static_cast<std::size_t>(heads); ++head)
        check_head(pass, module, head, static_cast<std::size_t>(heads));
    }
    std::vector<double> sum = pass.seen["encoder.0.self_attn"];
    const Numbers& input = pass.step("embedding", "+ position");  // the encoder's, which comes first
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += input.values[i];
    check_close(pass.step("encoder.0.norm1", "added"), sum, 1e-6, "added");
    check_close(pass.step("encoder.0.ffn", "down"), pass.seen["encoder.0.ffn"], 1e-6, "ffn");
    check_close(pass.step("decoder.0.norm2", "normalised"), pass.seen["decoder.0.norm2"], 1e-6, "norm2");
    check_close(pass.step("output", "logits"), pass.seen["output"], 1e-6, "logits");
  }
}

BOOST_AUTO_TEST_CASE(a_step_is_printed_in_80_columns) {
  const std::vector<double> values{-0.00832, 1.23456, -12345, 0.000123, -HUGE_VAL, 0};
  const std::vector<std::string> texts{"-0.0083", "1.23", "-1.2e+4", "1.2e-4", "-inf", "0"};
  for (std::size_t i = 0; i < values.size(); ++i) BOOST_CHECK_EQUAL(short_number(values[i]), texts[i]);
  Parameters parameters(3);
  const addsub::Model model(parameters.root(), config_of(seppo::Norm::post, 2, 0));
  for (const Step& step : Recorded(model).recorder.steps) {
    const std::string text = step_text(step, {}, false);
    for (std::size_t begin = text.find('\n') + 1, end; (end = text.find('\n', begin)) != text.npos; begin = end + 1)
      BOOST_CHECK_LE(end - begin, 80u);
  }
}
