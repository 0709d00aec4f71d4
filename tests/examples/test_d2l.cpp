// The score of the book "Dive into Deep Learning", against a naive loop.
// needs: programs: translate
#define BOOST_TEST_MODULE d2l
#include "translate/d2l.h"

#include <seppo/autograd/core/random.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace {

using Words = std::vector<std::string>;

// How many n-grams of the words are in the label, each at most as often as there.
std::size_t naive_matches(const Words& words, Words label, std::size_t n) {
  const auto ngram = [n](const Words& text, std::size_t at) {
    std::string all;
    for (std::size_t i = at; i < at + n; ++i) all += text[i] + " ";
    return all;
  };
  Words left;
  for (std::size_t at = 0; at + n <= label.size(); ++at) left.push_back(ngram(label, at));
  std::size_t matches = 0;
  for (std::size_t at = 0; at + n <= words.size(); ++at) {
    const auto found = std::find(left.begin(), left.end(), ngram(words, at));
    if (found == left.end()) continue;
    left.erase(found);
    ++matches;
  }
  return matches;
}

}  // namespace

// Random words from a vocabulary of three, so that n-grams repeat.
BOOST_AUTO_TEST_CASE(the_score_of_one_sentence) {
  seppo::RandomStream random(3, seppo::Purpose::test);
  const auto text = [&] {
    Words some;
    for (std::uint32_t i = 1 + random.below(9); i > 0; --i)
      some.emplace_back(1, static_cast<char>('a' + random.below(3)));
    return some;
  };
  int scored = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const Words one = text();
    const Words label = text();
    for (int k = 1; k <= 5; ++k) {
      double score = std::min(1.0, std::exp(1 - static_cast<double>(label.size()) / static_cast<double>(one.size())));
      for (std::size_t n = 1; n <= static_cast<std::size_t>(k) && n <= one.size(); ++n)
        score *= std::pow(static_cast<double>(naive_matches(one, label, n)) / static_cast<double>(one.size() - n + 1),
                          1 / std::exp2(static_cast<double>(n)));
      BOOST_CHECK_SMALL(translate::bleu_k(one, label, k) - score, 1e-12);
      scored += score > 0 && score < 1;
    }
  }
  BOOST_CHECK_GT(scored, 200);
}
