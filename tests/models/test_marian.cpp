// Marian: transformers' numbers, its gradients, its positions, decoding with a cache, and what a file has besides.
// needs: precision: double
#include <seppo/models/marian.h>
#include <seppo/nn/gradient_check.h>
#include <seppo/nn/io/foreign_weights.h>

#include "support/sine_weights.h"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

using namespace seppo;

namespace {

TransformerConfig small_config() {
  return {.src_vocabulary = 11,
          .tgt_vocabulary = 11,
          .layer = {.d_model = 8, .n_heads = 2, .d_ff = 12, .dropout = 0, .activation = Activation::silu},
          .enc_layers = 2,
          .dec_layers = 1,
          .max_length = 16};
}

}  // namespace

// The logits of transformers' MarianMTModel with the same parameters, of the last token (tests/oracle/
// transformers_numbers.py). Its table of positions is in single precision.
BOOST_AUTO_TEST_CASE(the_numbers_of_transformers) {
  const std::vector<double> expected{0.27296199785,   -0.0771034640872, 0.123634097081, 0.0991941924986,
                                     -0.463909766978, -0.358775925622,  0.45333930415,  0.497191925383,
                                     -0.190919667867, -0.272055196283,  0.0462331779721};
  Parameters parameters(1);
  const Marian marian(parameters.root(), small_config());
  test::fill_with_sines(parameters, marian_weights());
  const Inference inference;
  const Tensor logits = marian.logits(Ragged::of({{3, 1, 4, 1, 5}}), Ragged::of({{10, 2, 6, 5, 10}}));
  BOOST_REQUIRE_EQUAL(logits.size(1), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    BOOST_CHECK_SMALL(logits.at(4, static_cast<int>(i)) - expected[i], 1e-6);
}

BOOST_AUTO_TEST_CASE(gradients) {
  Parameters parameters(1);
  const Marian marian(parameters.root(), small_config());
  test::fill_with_sines(parameters, marian_weights());
  const Ragged src = Ragged::of({{3, 1, 4, 1, 5}, {9}}), tgt = Ragged::of({{10, 2, 6}, {10, 5}});
  const auto loss = [&] { return cross_entropy(marian.logits(src, tgt), {2, 6, 0, 5, 0}); };
  const GradientCheckReport report = gradient_check(parameters, loss);
  BOOST_CHECK_MESSAGE(report.passed, report.text);
}

// Sines in the first half of the columns, cosines of the same angles in the second; of an odd width, one sine more.
BOOST_AUTO_TEST_CASE(positions) {
  for (const int width : {6, 5}) {
    Parameters parameters(1);
    TransformerConfig config = small_config();
    config.layer.d_model = width;
    config.layer.n_heads = 1;
    const Marian marian(parameters.root(), config);
    const Tensor& table = marian.transformer.positions.table;
    const int half = (width + 1) / 2;
    for (int n = 0; n < 16; ++n)
      for (int i = 0; i < width; ++i) {
        const double angle = n / std::pow(10000.0, 2.0 * (i % half) / width);
        BOOST_CHECK_SMALL(table.at(n, i) - (i < half ? std::sin(angle) : std::cos(angle)), 1e-14);
      }
  }
}

BOOST_AUTO_TEST_CASE(a_cache_changes_nothing) {
  Parameters parameters(1);
  const Marian marian(parameters.root(), small_config());
  const Inference inference;
  const Ragged src = Ragged::of({{3, 1, 4, 1, 5}});
  const std::vector<int> target{10, 2, 6, 5};
  const Tensor memory = marian.encode(src), all = marian.decode(Ragged::of({target}), memory, src.offsets);
  KeyValueCache cache = marian.transformer.make_cache(1, 16);
  for (int row = 0; row < 4; ++row) {
    const int token = target[static_cast<std::size_t>(row)];
    const Tensor next = marian.decode(Ragged::of({{token}}), memory, src.offsets, &cache);
    for (int i = 0; i < 11; ++i) BOOST_CHECK_SMALL(next.at(0, i) - all.at(row, i), 1e-12);
  }
}

BOOST_AUTO_TEST_CASE(the_config_of_what_is_marians_does_not_matter) {
  Parameters parameters(1);
  TransformerConfig config = small_config();
  config.positions = Positions::learned;
  const Marian marian(parameters.root(), config);
  BOOST_CHECK(!parameters.find("positions.weight") && !parameters.find("output.weight"));
  BOOST_CHECK(parameters.find("embedding.weight") && parameters.find("final_logits_bias")->is_buffer);
  config.layer.n_heads = 3;
  BOOST_CHECK_THROW(Marian(parameters.root() / "b", config), ArgumentError);
}

BOOST_AUTO_TEST_CASE(copies_and_tables_are_passed_over) {
  const WeightOptions names = marian_weights();
  for (const char* name : {"model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight",
                           "model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"})
    BOOST_CHECK_MESSAGE(names.skip(name), name);
  Parameters parameters(1);
  const Marian marian(parameters.root(), small_config());
  for (const Parameters::Entry& entry : parameters.entries()) {
    BOOST_CHECK_MESSAGE(!names.skip(entry.name), entry.name);
    for (const std::string& name : names.rename(entry.name)) BOOST_CHECK_MESSAGE(!names.skip(name), name);
  }
}
