// What the report page tells beside the network: the scores without each head, and the snapshots of a training.
// needs: programs: addsub
#include "addsub/model.h"
#include "app/head_needs.h"
#include "app/snapshots.h"
#include "support/paths.h"
#include "support/program.h"

#include <seppo/autograd/core/guards.h>

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>

using namespace test;
using namespace examples;
using nlohmann::json;
using seppo::Parameters;
using seppo::Ragged;
using seppo::Tensor;

namespace {

addsub::ModelConfig config_of(seppo::Norm norm) {
  addsub::ModelConfig config;
  config.transformer.layer.d_model = 8;
  config.transformer.layer.n_heads = 2;
  config.transformer.layer.d_ff = 6;
  config.transformer.layer.norm = norm;
  config.transformer.enc_layers = 1;
  config.transformer.dec_layers = 2;
  return config;
}

const Ragged kSource = Ragged::of({{14, 10, 4, 8, 13, 10, 2, 7, 15}}), kRead = Ragged::of({{14, 10, 2, 1}});

struct Built {
  Parameters parameters{3};
  addsub::Model model;
  explicit Built(seppo::Norm norm = seppo::Norm::post) : model(parameters.root(), config_of(norm)) {}

  double score() const {
    const seppo::Inference guard;
    const Tensor logits = model.transformer.logits(kSource, kRead);
    return double{logits.values()[5]} + double{logits.values()[40]};
  }
};

std::vector<seppo::real> copy_of(std::span<const seppo::real> values) { return {values.begin(), values.end()}; }

}  // namespace

// Without a head means: without what its columns of the output map add.
BOOST_AUTO_TEST_CASE(scores_without_each_head) {
  Built built;
  const auto before = copy_of(built.parameters.values());
  const json scores = scores_without_heads(built.parameters, 2, [&] { return built.score(); });
  BOOST_CHECK(std::ranges::equal(before, built.parameters.values()));
  BOOST_CHECK_EQUAL(scores["whole"].get<double>(), built.score());
  BOOST_REQUIRE_EQUAL(scores["without"].size(), 5u);  // one encoder layer, two of the decoder
  for (const auto& [name, found] : scores["without"].items()) {
    BOOST_REQUIRE_EQUAL(found.size(), 2u);
    const Parameters::Entry* const weight = built.parameters.find(name + ".out_proj.weight");
    for (std::size_t head = 0; head < 2; ++head) {
      for (std::size_t row = 0; row < 8; ++row)
        for (std::size_t j = 0; j < 4; ++j) built.parameters.edit()[weight->offset + 8 * row + 4 * head + j] = 0;
      BOOST_CHECK_EQUAL(found[head].get<double>(), built.score());
      std::ranges::copy(before, built.parameters.edit().begin());
      BOOST_CHECK_NE(found[head].get<double>(), built.score());
    }
  }
}

BOOST_AUTO_TEST_CASE(an_error_leaves_the_parameters) {
  Built built;
  const auto before = copy_of(built.parameters.values());
  const auto fails = []() -> double { throw std::runtime_error("no score"); };
  BOOST_CHECK_THROW(scores_without_heads(built.parameters, 2, fails), std::runtime_error);
  BOOST_CHECK(std::ranges::equal(before, built.parameters.values()));
}

// However many evaluations: at most 20, the first among them, at equal distances.
BOOST_AUTO_TEST_CASE(snapshots_are_evenly_spread) {
  Parameters parameters(1);
  parameters.root().parameter("a", {2}, seppo::init_zeros());
  Snapshots snapshots;
  for (std::int64_t evaluation = 1; evaluation <= 137; ++evaluation) {
    parameters.edit()[0] = static_cast<seppo::real>(evaluation);
    snapshots.add(10 * evaluation, parameters);
    const std::vector<std::int64_t> steps = snapshots.steps();
    BOOST_REQUIRE(!steps.empty() && steps.size() <= Snapshots::kMostKept && steps[0] == 10);
    for (std::size_t i = 2; i < steps.size(); ++i) BOOST_REQUIRE_EQUAL(steps[i] - steps[i - 1], steps[1] - steps[0]);
    BOOST_REQUIRE_GE(steps.size(), std::min<std::size_t>(10, static_cast<std::size_t>(evaluation)));
  }
  const Folder folder("snapshots");
  snapshots.write(folder.path / "s.js");
  const std::string text = read(folder.path / "s.js");
  BOOST_REQUIRE(text.starts_with("snapshots([") && text.ends_with("]);\n"));
  const json list = json::parse(text.substr(10, text.rfind(')') - 10));
  BOOST_REQUIRE_EQUAL(list.size(), snapshots.steps().size());
  BOOST_CHECK_EQUAL(list[0]["step"], 10);
  BOOST_CHECK_EQUAL(list[0]["values"], "AACAPwAAAAA");  // 1 and 0 as float32
}

BOOST_AUTO_TEST_CASE(large_networks_have_no_snapshots) {
  Parameters parameters(1);
  parameters.root().parameter("a", {static_cast<int>(Snapshots::kMostValues) + 1}, seppo::init_zeros());
  Snapshots snapshots;
  snapshots.add(1, parameters);
  BOOST_CHECK(snapshots.empty());
}
