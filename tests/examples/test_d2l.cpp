// Text and score of the book "Dive into Deep Learning": its examples, and the score against a naive loop.
// needs: programs: translate
#include "translate/d2l.h"
#include "translate/text.h"

#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/random.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
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

BOOST_AUTO_TEST_CASE(the_book_normalises_text) {
  BOOST_CHECK_EQUAL(translate::normalised("Go."), "go .");
  BOOST_CHECK_EQUAL(translate::normalised("Ça alors\u202f!"), "ça alors !");
  BOOST_CHECK_EQUAL(translate::normalised("Où\u00a0? ÉTÉ, Œuf"), "où ? été , œuf");
  BOOST_CHECK_EQUAL(translate::normalised("!?"), "! ?");
  BOOST_CHECK_EQUAL(translate::normalised("ΑΩ АЯ Ё Ÿ Ž ŀ"), "αω ая ё ÿ ž ŀ");
}

BOOST_AUTO_TEST_CASE(the_book_scores_translations) {
  const auto score = [](std::string_view prediction, std::string_view label, int k) {
    return translate::bleu_k(translate::words_of(prediction), translate::words_of(label), k);
  };
  BOOST_CHECK_CLOSE(score("va !", "va !", 2), 1, 1e-10);
  // A B C D E F against A B B C D: the book's own example has p_1 = 4/5, p_2 = 3/4, p_3 = 1/3, p_4 = 0.
  BOOST_CHECK_CLOSE(score("A B B C D", "A B C D E F", 1), std::exp(1 - 6.0 / 5) * std::sqrt(4.0 / 5), 1e-10);
  BOOST_CHECK_CLOSE(score("A B B C D", "A B C D E F", 2),
                    std::exp(1 - 6.0 / 5) * std::sqrt(4.0 / 5) * std::pow(3.0 / 4, 0.25), 1e-10);
  BOOST_CHECK_EQUAL(score("A B B C D", "A B C D E F", 4), 0);
  // The published results of the book's first edition are three of these four, and another.
  BOOST_CHECK_SMALL(score("je suis calme .", "il est calme .", 2) - std::sqrt(0.5) * std::pow(1.0 / 3, 0.25), 1e-10);
  // A prediction shorter than k words is scored by the n-grams it has, as the present edition does.
  BOOST_CHECK_CLOSE(score("a", "a b", 2), std::exp(-1), 1e-10);
  BOOST_CHECK_EQUAL(score("a", "a", 2), 1);
  BOOST_CHECK_EQUAL(score("", "a", 2), 0);
  BOOST_CHECK_THROW(score("a", "a", 0), seppo::ArgumentError);
}
