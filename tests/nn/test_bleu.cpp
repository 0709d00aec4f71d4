// BLEU against published values and against a naive loop.
// needs: libraries: seppo::text
#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/random.h>
#include <seppo/nn/text/bleu.h>

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>

using namespace seppo;
using Words = Sentence;

namespace {

Words words(std::string_view text) {
  std::istringstream stream{std::string(text)};
  return {std::istream_iterator<std::string>(stream), {}};
}

const std::vector<Words> kGuide{
    words("It is a guide to action that ensures that the military will forever heed Party commands"),
    words("It is the guiding principle which guarantees the military forces always being under the "
          "command of the Party"),
    words("It is the practical guide for the army always to heed the directions of the party")};

}  // namespace

// The examples of Papineni et al. 2002, sections 2.1 and 2.2.
BOOST_AUTO_TEST_CASE(the_examples_of_the_paper) {
  const std::vector<Words> one{
      words("It is a guide to action which ensures that the military always obeys the commands of the party")};
  const std::vector<Words> two{
      words("It is to insure the troops forever hearing the activity guidebook that party direct")};
  const std::vector<std::vector<Words>> references{kGuide};
  const Bleu good = corpus_bleu(one, references), bad = corpus_bleu(two, references);
  BOOST_CHECK_CLOSE(good.precisions[0], 17.0 / 18, 1e-10);
  BOOST_CHECK_CLOSE(good.precisions[1], 10.0 / 17, 1e-10);
  BOOST_CHECK_CLOSE(bad.precisions[0], 8.0 / 14, 1e-10);
  BOOST_CHECK_CLOSE(bad.precisions[1], 1.0 / 13, 1e-10);
  BOOST_CHECK_EQUAL(bad.score, 0);  // no matching 3-gram, and no smoothing
  // The count of a repeated word is clipped.
  const std::vector<Words> the{words("the the the the the the the")};
  const std::vector<std::vector<Words>> cats{{words("The cat is on the mat"), words("There is a cat on the mat")}};
  BOOST_CHECK_CLOSE(corpus_bleu(the, cats, 1).precisions[0], 1.0 / 7, 1e-10);
  const std::vector<std::vector<Words>> small{{words("the cat is on the mat"), words("there is a cat on the mat")}};
  BOOST_CHECK_CLOSE(corpus_bleu(the, small, 1).precisions[0], 2.0 / 7, 1e-10);
  // The same sentence in NLTK's documentation: 0.5046.
  BOOST_CHECK_SMALL(good.score - 0.5045666840058485, 1e-12);
}

// The corpora in the documentation of NLTK (0.5921) and of torchtext (0.84089...).
BOOST_AUTO_TEST_CASE(corpora_of_manuals) {
  const std::vector<Words> translations{
      words("It is a guide to action which ensures that the military always obeys the commands of the party"),
      words("he read the book because he was interested in world history")};
  const std::vector<std::vector<Words>> references{
      kGuide, {words("he was interested in world history because he read the book")}};
  BOOST_CHECK_SMALL(corpus_bleu(translations, references).score - 0.5920778868801042, 1e-12);
  const std::vector<Words> pytorch{words("My full pytorch test"), words("Another Sentence")};
  const std::vector<std::vector<Words>> of_pytorch{{words("My full pytorch test"), words("Completely Different")},
                                                   {words("No Match")}};
  BOOST_CHECK_SMALL(corpus_bleu(pytorch, of_pytorch).score - 0.8408964276313782, 1e-7);
}

// The example in sacrebleu's documentation: 48.53, 82.4/50.0/45.5/37.5, brevity penalty 0.943, 17 words against 18.
BOOST_AUTO_TEST_CASE(a_corpus_that_is_too_short) {
  const std::vector<Words> translations{words("The dog bit the man ."), words("It wasn't surprising ."),
                                        words("The man had just bitten him .")};
  const std::vector<std::vector<Words>> references{
      {words("The dog bit the man ."), words("The dog had bit the man .")},
      {words("It was not unexpected ."), words("No one was surprised .")},
      {words("The man bit him first ."), words("The man had bitten the dog .")}};
  const Bleu bleu = corpus_bleu(translations, references);
  BOOST_CHECK_EQUAL(bleu.length, 17);
  BOOST_CHECK_EQUAL(bleu.reference_length, 18);
  const double expected[] = {82.4, 50.0, 45.5, 37.5};
  for (std::size_t n = 0; n < 4; ++n) BOOST_CHECK_SMALL(100 * bleu.precisions[n] - expected[n], 0.05);
  BOOST_CHECK_SMALL(bleu.brevity_penalty - 0.943, 5e-4);
  BOOST_CHECK_SMALL(100 * bleu.score - 48.53, 5e-3);
}

BOOST_AUTO_TEST_CASE(edges) {
  const std::vector<Words> text{words("a b c d e"), words("f g h i")};
  BOOST_CHECK_SMALL(corpus_bleu(text, text).score - 1, 1e-12);
  const std::vector<Words> nothing{{}, {}};
  BOOST_CHECK_EQUAL(corpus_bleu(nothing, text).score, 0);
  BOOST_CHECK_EQUAL(corpus_bleu(std::vector<Words>{}, std::vector<Words>{}).score, 0);
  // A score needs a reference with as many words as the longest n-grams, whatever the translations are.
  const std::vector<Words> three{words("a b c")}, longer{words("a b c d")};
  BOOST_CHECK(!corpus_bleu(longer, three).is_defined);
  BOOST_CHECK(!corpus_bleu(std::vector<Words>{}, std::vector<Words>{}).is_defined);
  BOOST_CHECK(corpus_bleu(three, longer).is_defined && corpus_bleu(three, three, 3).is_defined);
  BOOST_TEST(corpus_bleu(three, longer).ngrams == (std::vector<std::size_t>{3, 2, 1, 0}));
  // If two references are equally close in length, the shorter one counts.
  const std::vector<Words> four{words("a b c d")};
  const std::vector<std::vector<Words>> around{{words("a b c d e"), words("a b c")}};
  BOOST_CHECK_EQUAL(corpus_bleu(four, around).reference_length, 3);
  BOOST_CHECK_THROW(corpus_bleu(text, std::vector<Words>{text[0]}), ShapeError);
  BOOST_CHECK_THROW(corpus_bleu(text, std::vector<std::vector<Words>>{{text[0]}, {}}), ShapeError);
  BOOST_CHECK_THROW(corpus_bleu(text, text, 0), ArgumentError);
}

namespace {

// The same count by another method: compares n-grams word by word, each position of a reference matching at most once.
std::size_t naive_matches(const Words& words, const std::vector<Words>& references, std::size_t n) {
  const auto count_of = [n](const Words& text, const Words& of, std::size_t place) {
    std::size_t count = 0;
    for (std::size_t at = 0; at + n <= text.size(); ++at)
      count +=
          std::equal(text.begin() + static_cast<std::ptrdiff_t>(at), text.begin() + static_cast<std::ptrdiff_t>(at + n),
                     of.begin() + static_cast<std::ptrdiff_t>(place));
    return count;
  };
  std::size_t matches = 0;
  for (std::size_t place = 0; place + n <= words.size(); ++place) {
    const Words before(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(place + n - 1));  // earlier n-grams
    std::size_t most = 0;
    for (const Words& reference : references) most = std::max(most, count_of(reference, words, place));
    matches += count_of(before, words, place) < most;
  }
  return matches;
}

}  // namespace

// Random words from a vocabulary of three, so that n-grams repeat.
BOOST_AUTO_TEST_CASE(every_length_of_ngrams_by_the_naive_loop) {
  RandomStream random(3, Purpose::test);
  const auto text = [&](std::uint32_t least) {
    Words some;
    for (std::uint32_t i = least + random.below(9); i > 0; --i)
      some.emplace_back(1, static_cast<char>('a' + random.below(3)));
    return some;
  };
  int scored = 0;
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<Words> translations;
    std::vector<std::vector<Words>> references;
    for (std::uint32_t i = 1 + random.below(4); i > 0; --i) {
      translations.push_back(text(0));
      references.emplace_back();
      for (std::uint32_t r = 1 + random.below(3); r > 0; --r) references.back().push_back(text(1));
    }
    for (int max_n = 1; max_n <= 6; ++max_n) {
      const Bleu bleu = corpus_bleu(translations, references, max_n);
      BOOST_REQUIRE_EQUAL(bleu.precisions.size(), max_n);
      double score = 1;
      for (std::size_t n = 1; n <= static_cast<std::size_t>(max_n); ++n) {
        std::size_t matches = 0, all = 0;
        for (std::size_t i = 0; i < translations.size(); ++i) {
          matches += naive_matches(translations[i], references[i], n);
          for (std::size_t at = n; at <= translations[i].size(); ++at) ++all;
        }
        const double precision = all > 0 ? static_cast<double>(matches) / static_cast<double>(all) : 0;
        BOOST_CHECK_EQUAL(bleu.precisions[n - 1], precision);
        score *= std::pow(precision, 1.0 / max_n);
      }
      double length = 0, of_references = 0;
      for (std::size_t i = 0; i < translations.size(); ++i) {
        const auto size = static_cast<double>(translations[i].size());
        double closest = 1e9;
        for (const Words& reference : references[i]) {
          const auto other = static_cast<double>(reference.size());
          const double gap = std::abs(other - size), best = std::abs(closest - size);
          if (gap < best || (gap == best && other < closest)) closest = other;
        }
        length += size;
        of_references += closest;
      }
      const double brevity = length >= of_references ? 1 : length > 0 ? std::exp(1 - of_references / length) : 0;
      BOOST_CHECK_CLOSE(bleu.brevity_penalty, brevity, 1e-10);
      BOOST_CHECK_SMALL(bleu.score - brevity * score, 1e-12);
      scored += bleu.score > 0 && bleu.score < 1;
    }
  }
  BOOST_CHECK_GT(scored, 200);
}
