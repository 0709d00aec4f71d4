// KeptText against generation from the beginning, counting the tokens that are computed.
// needs: precision: single
#include "models/small_transformer.h"
#include "support/errors.h"

#include <seppo/autograd/core/guards.h>
#include <seppo/autograd/core/observer.h>
#include <seppo/models/decoding/generate.h>
#include <seppo/models/decoding/kept_text.h>

#include <stdexcept>
#include <string>
#include <vector>

using namespace seppo;
using Tokens = std::vector<int>;

namespace {

constexpr int kWindow = 24;

struct Fixture {
  Parameters parameters{5};
  LanguageModel model{parameters.root(),
                      {.vocabulary = small::kVocabulary,
                       .layer = {.d_model = 8, .n_heads = 2, .d_ff = 16, .norm = Norm::pre},
                       .n_layers = 2,
                       .max_length = kWindow}};
  Inference inference;
  KeptText kept{model};

  Fixture() {
    for (real& v : parameters.edit()) v *= 3;  // makes the choices differ between texts
  }
};

// Counts the tokens that a model embeds; can fail at one.
struct CountTokens : Observer {
  void forward(const Tensor& y, std::span<const Tensor>) override {
    if (y.node().op != std::string("embedding")) return;
    count += y.rows();
    if (count >= fails_from) throw std::runtime_error("failed");
  }
  std::size_t count = 0, fails_from = 1000;
};

const GenerateOptions kGreedy{.max_tokens = 5, .sampling = {.temperature = 0}};

// What is written after the prompt, which must be what the model writes from the beginning; `computed` tokens are.
Tokens check_text(Fixture& f, const Tokens& prompt, std::size_t computed) {
  const Tokens expected = generate(f.model, Ragged::of({prompt}), kGreedy)[0];
  CountTokens counter;
  const Observe observe(counter);
  const Tokens got = generate(f.kept.steps(), Ragged::of({prompt}), kGreedy)[0];
  BOOST_TEST(got == expected, boost::test_tools::per_element());
  BOOST_CHECK_EQUAL(counter.count, computed);
  return got;
}

Tokens joined(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

// Of an answer, all tokens but the last are read while it is written.
BOOST_AUTO_TEST_CASE(a_conversation_computes_only_what_is_new) {
  Fixture f;
  const Tokens first{3, 1, 4};
  const Tokens answer = check_text(f, first, 3 + 4);
  const Tokens second = joined(joined(first, answer), {2, 7});
  const Tokens next = check_text(f, second, 1 + 2 + 4);
  check_text(f, joined(joined(second, next), {9}), 1 + 1 + 4);
}

BOOST_AUTO_TEST_CASE(another_text_is_computed_from_its_beginning) {
  Fixture f;
  const Tokens answer = check_text(f, {3, 1, 4}, 3 + 4);
  check_text(f, {3, 1, 5, 9, 2, 6, 5, 3, 5}, 9 + 4);
  check_text(f, {3, 1}, 2 + 4);  // shorter
  check_text(f, {3, 1}, 2 + 4);  // the same, whose end was read on
}

// Also one that differs in a single token, anywhere in what is kept.
BOOST_AUTO_TEST_CASE(a_text_with_another_token_is_computed_from_its_beginning) {
  Fixture f;
  const Tokens first{3, 1, 4};
  for (std::size_t at = 0; at < 3 + 4; ++at) {
    Tokens text = joined(joined(first, check_text(f, first, 3 + 4)), {2, 7});
    text[at] = (text[at] + 1) % small::kVocabulary;
    check_text(f, text, text.size() + 4);
  }
}

// Beyond the window, all that it holds is read anew for each token.
BOOST_AUTO_TEST_CASE(a_text_longer_than_the_window) {
  Fixture f;
  const Tokens prompt(kWindow - 2, 3);
  const Tokens answer = check_text(f, prompt, kWindow + 2 * kWindow);
  check_text(f, joined(prompt, answer), 5 * kWindow);
}

BOOST_AUTO_TEST_CASE(an_exception_is_survived) {
  Fixture f;
  const Tokens prompt{3, 1, 4};
  {
    CountTokens counter;
    counter.fails_from = 5;
    const Observe observe(counter);
    BOOST_CHECK_THROW(generate(f.kept.steps(), Ragged::of({prompt}), kGreedy), std::runtime_error);
  }
  check_text(f, joined(prompt, {1}), 4 + 4);
}

BOOST_AUTO_TEST_CASE(several_texts_are_refused) {
  Fixture f;
  test::check_error<ArgumentError>(
      [&] {
        generate(f.kept.steps(), Ragged::of({{1}, {2}}), kGreedy);
      },
      {"2 texts, not one"});
}
