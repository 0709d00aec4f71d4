// What translate makes of words that it does not know: they are never a success, and too many of them end a training
// before it begins. Texts without blanks between words, of which each sentence is such a word, are scored by
// characters.
// needs: programs: translate
#include "support/measures.h"
#include "translate/score.h"

#include <boost/test/unit_test.hpp>

#include <random>
#include <string>
#include <vector>

using namespace test;
using namespace translate;

namespace {

// Lines "w3 w14 w15 TAB <the same as ideographs, without blanks>".
std::string without_blanks(int pairs) {
  std::string text;
  std::minstd_rand random(7);
  for (int i = 0; i < pairs; ++i) {
    std::string source, target;
    for (int at = 0; at < 5; ++at) {
      const auto word = static_cast<int>(random() % 20);
      source += (at > 0 ? " w" : "w") + std::to_string(word);
      target += std::string("\xe4\xb8") + static_cast<char>(0x80 + word);
    }
    text += source + "\t" + target + "\n";
  }
  return text;
}

const std::string kTiny =
    " --d-model 16 --heads 2 --d-ff 16 --enc-layers 1 --dec-layers 1 --epochs 1 --validation 10 --log-format none";

struct Scored {
  std::vector<Pair> pairs{{"a b a", "x <unk> y"}, {"b c", "y rare"}, {"a a", "rarer x"}, {"b c a b", "x y x y"}};
  Languages languages = [] {
    const std::vector<std::vector<std::string>> sources{{"a", "b"}}, targets{{"x", "y"}};
    return Languages{{}, make_vocabulary(sources, 1), make_vocabulary(targets, 1)};
  }();
  seppo::Parameters parameters{3};
  Transformer model{parameters.root(),
                    {.src_vocabulary = languages.source.size(),
                     .tgt_vocabulary = languages.target.size(),
                     .layer = {.d_model = 8, .n_heads = 2, .d_ff = 8},
                     .enc_layers = 1,
                     .dec_layers = 1,
                     .max_length = 10}};
};

}  // namespace

BOOST_AUTO_TEST_CASE(unknown_targets_are_left_out_of_the_loss_and_wrong_in_the_accuracy) {
  const Scored s;
  const Examples examples = encode(s.languages, s.pairs);
  Sums known;
  int targets = 0;
  for (std::size_t row = 0; row < s.pairs.size(); ++row) {
    const seppo::Inference guard;
    const Examples one = examples.pick({{static_cast<int>(row)}});
    const seppo::Tensor scores = s.model.logits(one.source, one.target.without_last());
    const std::vector<int> next = one.target.without_first().tokens;
    for (std::size_t at = 0; at < next.size(); ++at, ++targets)
      if (next[at] != kUnknown) known.add(row_of(scores, at), next[at]);
  }
  const Score found = score(s.model, s.languages, examples, {.bos = kBos, .eos = kEos, .max_length = 8, .beam = 1});
  BOOST_CHECK_EQUAL(found.target.unknown, 3);
  BOOST_CHECK_EQUAL(found.target.tokens, 11);
  BOOST_CHECK_EQUAL(coverage(examples.source).unknown, 2);
  BOOST_CHECK_EQUAL(coverage(examples.source).tokens, 11);
  BOOST_CHECK_CLOSE(found.loss, known.loss(), 1e-4);
  BOOST_CHECK_CLOSE(found.accuracy, static_cast<double>(known.right) / targets, 1e-9);
}

// A model that writes nothing but <unk> has learned nothing, also about texts in which "<unk>" is a word.
BOOST_AUTO_TEST_CASE(a_model_of_nothing_but_unknown_words_scores_nothing) {
  const Scored s;
  s.model.output->bias.data()[kUnknown] = 100;
  const Examples unknown = encode(s.languages, std::vector<Pair>(3, {"a b a", "<unk> <unk> <unk> <unk>"}));
  const Score found = score(s.model, s.languages, unknown, {.bos = kBos, .eos = kEos, .max_length = 4, .beam = 1});
  BOOST_CHECK_EQUAL(found.translations[0], "<unk> <unk> <unk> <unk>");
  BOOST_CHECK_EQUAL(found.accuracy, 0);
  BOOST_CHECK_EQUAL(found.exact, 0);
  BOOST_CHECK_EQUAL(found.bleu_2, 0);
  BOOST_CHECK_EQUAL(found.bleu.precisions[0], 0);
  BOOST_CHECK_GT(found.loss, 50);
  const seppo::TapeMark mark;
  const seppo::ShardLoss training = loss(s.model, unknown.pick({{0}}), {});
  BOOST_CHECK_EQUAL(training.correct, 0);
  BOOST_CHECK_EQUAL(training.count, 5);
}

BOOST_AUTO_TEST_CASE(training_on_unknown_words_is_refused) {
  const Folder folder("unknown");
  folder.write("pairs", without_blanks(60));
  const auto train = [&](const std::string& more) {
    return words("translate train --pairs pairs --tokens words" + kTiny + more);
  };
  for (const char* culprit : {"--tokens", "--tokens characters", "--tokens subwords", "words", "training targets"})
    check_refused(folder, train(""), 2, culprit);
  // All words of the training texts are known, and none of the validation texts.
  check_refused(folder, train(" --min-frequency 1"), 2, "validation targets");
  folder.write("latin", "w1 w2\ta b\nw3 w4\tc d\n");
  check_refused(folder, train(" --validation 1000000"), 2, "--validation");
  check_refused(folder,
                words("translate train --pairs pairs --val-pairs latin --tokens characters --d-model 16 --heads 2"), 2,
                "validation targets");
  // Below a half, it is told.
  folder.write("some", "w1 w2\ta b\nw1 w2\ta b\nw1 w2\ta c\nw1 w2\ta b\n");
  const Result r =
      folder.run(words("translate train --pairs some --val-pairs some --tokens words --out some-out --log-format plain "
                       "--epochs 1 --d-model 16 --heads 2 --enc-layers 1 --dec-layers 1 --json"));
  BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
  BOOST_CHECK_MESSAGE(
      r.err.find("unknown tokens in source and target: 0.0 % and 12.5 % of training, 0.0 % and 12.5 % of validation") !=
          std::string::npos,
      r.err);
  BOOST_CHECK_MESSAGE(r.out.find("1 of 8 target tokens are unknown") != std::string::npos, r.out);
  BOOST_CHECK_EQUAL(last_line(r.out)["val_unknown_targets"], 1);
}

BOOST_AUTO_TEST_CASE(which_texts_lack_blanks) {
  const auto lack = [](std::vector<std::string> texts) {
    std::vector<Words> references;
    for (const std::string& text : texts) references.push_back(words_of(text));
    return lack_blanks(references);
  };
  BOOST_CHECK(!lack({"the dog bit the man .", "no ."}));
  BOOST_CHECK(!lack({"Donaudampfschifffahrtsgesellschaft hat ein Schiff"}));
  BOOST_CHECK(lack({"one", "two words", "and three words"}));  // no 4-gram
  BOOST_CHECK(lack({"天地玄黄宇宙洪荒", "日月盈昃 辰宿列张寒来暑往秋收冬藏闰余成岁律吕调阳", "a"}));
  BOOST_CHECK(lack({}));
}

BOOST_AUTO_TEST_CASE(texts_without_blanks_are_scored_by_characters,
                     *boost::unit_test::precondition(test::ends_in_time)) {
  const Folder folder("unknown");
  folder.write("pairs", without_blanks(60));
  const Result r = folder.run(words("translate train --pairs pairs --val-pairs pairs" + kSmallTranslator +
                                    "--epochs 60 --eval-interval 20 --schedule const --log-format none --json "
                                    "--warmup-steps 20 --out m"));
  BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
  const auto summary = last_line(r.out);
  BOOST_CHECK(summary["val_bleu"].is_null());
  BOOST_CHECK_GT(summary["val_bleu_characters"].get<double>(), 50);
  BOOST_CHECK_MESSAGE(r.out.find("BLEU - (") != std::string::npos && r.out.find(" / - / - / -") != std::string::npos,
                      r.out);
  BOOST_CHECK_NE(r.out.find("BLEU of characters: "), std::string::npos);
  BOOST_CHECK_EQUAL(Json::parse(read(folder.path / "m/config.json"))["training"]["best"], "bleu_characters");
  // Options that are read from a file are not chosen for these texts.
  folder.write(
      "options",
      folder.run(words("translate train --pairs pairs --val-pairs pairs --dump-config" + kSmallTranslator)).out);
  const auto best = [&](const std::string& more) {
    const Result brief = folder.run(
        words("translate train --config options --max-steps 1 --log-format none --overwrite --out b " + more));
    BOOST_REQUIRE_MESSAGE(brief.code == 0, brief.err);
    return Json::parse(read(folder.path / "b/config.json"))["training"]["best"].get<std::string>();
  };
  BOOST_CHECK_EQUAL(best(""), "bleu_characters");
  BOOST_CHECK_EQUAL(best("--best bleu"), "bleu");
  BOOST_REQUIRE_EQUAL(folder.run(words("translate train --resume b --max-steps 2 --log-format none")).code, 0);
  BOOST_CHECK_EQUAL(Json::parse(read(folder.path / "b/config.json"))["training"]["best"], "bleu");
  folder.write("blanks", "a b c d\ta b c d\nc d a b\tc d a b\n");
  check_refused(folder,
                words("translate train --pairs blanks --val-pairs blanks --best bleu_characters "
                      "--d-model 16 --heads 2"),
                2, "--best");
}
