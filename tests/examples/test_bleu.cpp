// BLEU against values that others have published.
#define BOOST_TEST_MODULE bleu
#include "translate/bleu.h"
#include "app/words.h"

#include <seppo/autograd/core/check.h>

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <string_view>

using namespace seppo;
using namespace translate;

namespace {

Words words(std::string_view text) {
  const auto pieces = examples::split_blanks(text);
  return {pieces.begin(), pieces.end()};
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
  BOOST_CHECK_EQUAL(bad.score, 0);  // no 3-gram in common, and nothing is smoothed
  // The clipped count of a word repeated.
  const std::vector<Words> the{words("the the the the the the the")};
  const std::vector<std::vector<Words>> cats{{words("The cat is on the mat"), words("There is a cat on the mat")}};
  BOOST_CHECK_CLOSE(corpus_bleu(the, cats, 1).precisions[0], 1.0 / 7, 1e-10);
  const std::vector<std::vector<Words>> small{{words("the cat is on the mat"), words("there is a cat on the mat")}};
  BOOST_CHECK_CLOSE(corpus_bleu(the, small, 1).precisions[0], 2.0 / 7, 1e-10);
  // The same sentence in the manuals of NLTK: 0.5046.
  BOOST_CHECK_SMALL(good.score - 0.5045666840058485, 1e-12);
}

// The corpus in the manual of NLTK (0.5921), and that of torchtext (0.84089...).
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

// The example of sacrebleu's manual: 48.53, 82.4/50.0/45.5/37.5, brevity penalty 0.943, 17 words against 18.
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
  // Two references as close in length: the shorter counts.
  const std::vector<Words> four{words("a b c d")};
  const std::vector<std::vector<Words>> around{{words("a b c d e"), words("a b c")}};
  BOOST_CHECK_EQUAL(corpus_bleu(four, around).reference_length, 3);
  BOOST_CHECK_THROW(corpus_bleu(text, std::vector<Words>{text[0]}), ShapeError);
  BOOST_CHECK_THROW(corpus_bleu(text, std::vector<std::vector<Words>>{{text[0]}, {}}), ShapeError);
  BOOST_CHECK_THROW(corpus_bleu(text, text, 0), ArgumentError);
}
