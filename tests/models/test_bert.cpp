// Bert: its gradients, that texts do not see each other, its parts, and its names in Hugging Face's files.
// needs: precision: double
#include <seppo/models/bert.h>
#include <seppo/nn/gradient_check.h>
#include <seppo/nn/io/foreign_weights.h>

#include "support/sine_weights.h"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

using namespace seppo;

namespace {

BertConfig small_config() {
  return {.vocabulary = 11,
          .layer = {.d_model = 8, .n_heads = 2, .d_ff = 12, .dropout = 0, .activation = Activation::gelu, .eps = 1e-12},
          .n_layers = 2,
          .max_length = 6};
}

struct Model {
  explicit Model(const Scope& s) : bert(s / "bert", small_config()), head(s / "cls", bert.config) {}
  Tensor scores(const Ragged& texts, List<int> rows) const {
    return head(index_select(bert(texts), 0, rows), bert.words);
  }
  Bert bert;
  MaskedHead head;
};

const Ragged kTexts = Ragged::of({{3, 1, 4, 1, 5}, {9}, {2, 6, 5}});

void check_equal(const Tensor& a, const Tensor& b) {
  BOOST_REQUIRE_EQUAL(a.shape().str(), b.shape().str());
  for (std::size_t i = 0; i < a.numel(); ++i) BOOST_CHECK_SMALL(a.values()[i] - b.values()[i], 1e-12);
}

}  // namespace

BOOST_AUTO_TEST_CASE(gradients) {
  Parameters parameters(1);
  const Model model(parameters.root());
  test::fill_with_sines(parameters, bert_weights());
  const auto loss = [&] { return cross_entropy(model.scores(kTexts, {1, 5, 6}), {7, 2, 10}); };
  const GradientCheckReport report = gradient_check(parameters, loss);
  BOOST_CHECK_MESSAGE(report.passed, report.text);
}

BOOST_AUTO_TEST_CASE(a_text_is_encoded_as_if_alone) {
  Parameters parameters(1);
  const Bert bert(parameters.root(), small_config());
  const Inference inference;
  const Tensor all = bert(kTexts);
  for (std::size_t i = 0; i < kTexts.size(); ++i)
    check_equal(slice(all, 0, kTexts.offsets[i], kTexts.offsets[i + 1]), bert(kTexts.pick({static_cast<int>(i)})));
}

BOOST_AUTO_TEST_CASE(every_token_sees_every_token_of_its_text) {
  Parameters parameters(1);
  const Bert bert(parameters.root(), small_config());
  const Inference inference;
  const std::vector<int> text{3, 1, 4, 1};
  const Tensor before = bert(Ragged::of({text}));
  for (std::size_t changed = 0; changed < text.size(); ++changed) {
    std::vector<int> other = text;
    other[changed] = 8;
    const Tensor after = bert(Ragged::of({other}));
    for (int row = 0; row < 4; ++row) BOOST_CHECK(std::abs(before.at(row, 0) - after.at(row, 0)) > 1e-6);
  }
}

BOOST_AUTO_TEST_CASE(segments) {
  Parameters parameters(1);
  const Bert bert(parameters.root(), small_config());
  const Inference inference;
  const std::vector<int> first(kTexts.tokens.size(), 0);
  std::vector<int> second = first;
  second[2] = 1;
  check_equal(bert(kTexts), bert(kTexts, first));
  BOOST_CHECK(std::abs(bert(kTexts).at(2, 0) - bert(kTexts, second).at(2, 0)) > 1e-6);
  for (const std::size_t n : {1U, 2U}) BOOST_CHECK_THROW(bert(kTexts, std::vector<int>(n, 0)), ShapeError);
}

BOOST_AUTO_TEST_CASE(texts_have_means) {
  RandomStream random(1, Purpose::test);
  const Tensor x = randn({9, 3}, random);
  const Tensor y = mean_of_texts(x, {0, 5, 5, 6, 9});
  const int ends[] = {0, 5, 5, 6, 9};
  for (int text = 0; text < 4; ++text)
    for (int i = 0; i < 3; ++i) {
      double sum = 0;
      for (int row = ends[text]; row < ends[text + 1]; ++row) sum += x.at(row, i);
      BOOST_CHECK_SMALL(y.at(text, i) - sum / std::max(1, ends[text + 1] - ends[text]), 1e-14);
    }
}

BOOST_AUTO_TEST_CASE(configs_out_of_range_are_refused) {
  Parameters parameters(1);
  BertConfig config = small_config();
  config.layer.n_heads = 3;
  BOOST_CHECK_THROW(Bert(parameters.root() / "a", config), ArgumentError);
  config = small_config();
  config.segments = 0;
  BOOST_CHECK_THROW(Bert(parameters.root() / "b", config), ArgumentError);
  const Bert bert(parameters.root(), small_config());
  const Inference inference;
  BOOST_CHECK_THROW(bert(Ragged::of({{1, 2, 3, 4, 5, 6, 7}})), IndexError);
  BOOST_CHECK_THROW(bert(Ragged::of({{11}})), IndexError);
}

// The logits of transformers' BertForMaskedLM with the same parameters, of the last token of a text whose last two
// tokens are of the second segment (tests/oracle/transformers_numbers.py).
BOOST_AUTO_TEST_CASE(the_numbers_of_transformers) {
  const std::vector<double> expected{0.609745549711,  0.197236976684,   -0.419459486891, -0.217848945842,
                                     0.0809965608243, -0.0972948608371, 0.0340972391894, 0.47272230078,
                                     0.157970255324,  -0.547842003334,  -0.359677911336};
  Parameters parameters(1);
  const Model model(parameters.root());
  test::fill_with_sines(parameters, bert_weights());
  const Inference inference;
  const Tensor x = model.bert(Ragged::of({{3, 1, 4, 1, 5}}), {0, 0, 0, 1, 1});
  const Tensor logits = model.head(slice(x, 0, 4, 5), model.bert.words);
  BOOST_REQUIRE_EQUAL(logits.numel(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) BOOST_CHECK_SMALL(logits.values()[i] - expected[i], 1e-11);
}

// What a file has besides, and nothing else, is passed over.
BOOST_AUTO_TEST_CASE(the_pooler_and_copies_are_passed_over) {
  const WeightOptions names = bert_weights();
  for (const char* name : {"pooler.dense.weight", "bert.pooler.dense.bias", "embeddings.position_ids",
                           "bert.embeddings.position_ids", "cls.predictions.decoder.weight"})
    BOOST_CHECK_MESSAGE(names.skip(name), name);
  Parameters parameters(1);
  const Model model(parameters.root());
  for (const Parameters::Entry& entry : parameters.entries()) {
    BOOST_CHECK_MESSAGE(!names.skip(entry.name), entry.name);
    for (const std::string& name : names.rename(entry.name)) BOOST_CHECK_MESSAGE(!names.skip(name), name);
  }
}
