// What translate reports about a training run, recomputed: the loss of the first step from the training pairs alone,
// and each measure of the kept model from its scores on the other pairs and from its translations.
// needs: programs: translate
#include "app/command_line.h"
#include "support/measures.h"
#include "translate/d2l.h"
#include "translate/examples.h"
#include "translate/numbers.h"

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <map>
#include <set>
#include <sstream>

using namespace test;
using seppo::Ragged;
using translate::Pair;
using Tokens = std::vector<int>;

namespace {

// BLEU with n-grams up to four and one reference each, counting n-grams as text in maps.
double naive_bleu(const std::vector<Words>& translations, const std::vector<Words>& references) {
  double log_sum = 0, length = 0, reference_length = 0;
  for (std::size_t n = 1; n <= 4; ++n) {
    int matching = 0, all = 0;
    for (std::size_t i = 0; i < translations.size(); ++i) {
      std::map<std::string, int> balance;
      const auto count = [&](const Words& words, const auto& f) {
        for (std::size_t at = 0; at + n <= words.size(); ++at) {
          std::string ngram;
          for (std::size_t j = at; j < at + n; ++j) ngram += words[j] + " ";
          f(balance[ngram]);
        }
      };
      count(references[i], [](int& left) { ++left; });
      count(translations[i], [&](int& left) { ++all, matching += left-- > 0; });
    }
    log_sum += std::log(static_cast<double>(matching) / all) / 4;
  }
  for (std::size_t i = 0; i < translations.size(); ++i) {
    length += static_cast<double>(translations[i].size());
    reference_length += static_cast<double>(references[i].size());
  }
  return std::exp(log_sum + std::min(0.0, 1 - reference_length / length));
}

using SavedTranslator = seppo::SavedModel<seppo::Transformer>;

// Cross-entropy of each target token given those before it.
Sums targets_of(const seppo::Transformer& model, const translate::Examples& examples, const Tokens& rows) {
  const seppo::Inference guard;
  Sums sums;
  for (const int row : rows) {
    const auto at = static_cast<std::size_t>(row);
    const std::span<const int> target = examples.target[at];
    Ragged source, before;
    source.add(examples.source[at]);
    before.add(target.first(target.size() - 1));
    const seppo::Tensor scores = model.logits(source, before);
    for (std::size_t i = 1; i < target.size(); ++i) sums.add(row_of(scores, i - 1), target[i]);
  }
  return sums;
}

std::string greedy_translation(const seppo::Transformer& model, const translate::Languages& languages,
                               const std::string& text) {
  const seppo::Inference guard;
  Ragged source;
  source.add(languages.encode(languages.source, text));
  Tokens written{translate::kBos};
  while (written.back() != translate::kEos && std::ssize(written) <= model.config.max_length) {
    Ragged target;
    target.add(written);
    const auto last = row_of(model.logits(source, target), written.size() - 1);
    written.push_back(static_cast<int>(std::ranges::max_element(last) - last.begin()));
  }
  return languages.decode(std::span(written).subspan(1));
}

Tokens all_of(std::size_t count) {
  Tokens rows;
  for (std::size_t i = 0; i < count; ++i) rows.push_back(static_cast<int>(i));
  return rows;
}

// Compares the first step and the final validation loss of a run with the losses on these pairs.
SavedTranslator check_translator(const Folder& folder, const Finished& r, const std::vector<Pair>& train,
                                 const std::vector<Pair>& validation) {
  SavedTranslator saved = seppo::load_model<seppo::Transformer>(folder.path / "m/model.safetensors");
  const auto languages = translate::Languages::from_json(saved.config["languages"]);
  const Fresh<seppo::Transformer> start(5, saved.model.config);
  const translate::Examples examples = translate::encode(languages, train),
                            held_back = translate::encode(languages, validation);
  std::vector<int> lengths;
  for (std::size_t i = 0; i < train.size(); ++i)
    lengths.push_back(static_cast<int>(examples.source[i].size() + examples.target[i].size()));
  const Tokens first = first_batch(train.size(), r, lengths);
  check_near(r.steps[0]["loss"], targets_of(start.model, examples, first).loss());
  const Sums sums = targets_of(saved.model, held_back, all_of(validation.size()));
  check_near(r.summary["val_loss"], sums.loss());
  check_near(r.summary["val_perplexity"], std::exp(sums.loss()));
  BOOST_CHECK_EQUAL(r.summary["val_token_accuracy"].get<double>(), sums.accuracy());
  return saved;
}

}  // namespace

BOOST_AUTO_TEST_CASE(numbers_are_held_back) {
  const Folder folder("measures");
  const Finished r = run_training(
      folder, {"translate", "train", "--seed", "5",  "--validation",      "40", "--max-steps",  "3",  "--d-model", "16",
               "--heads",   "2",     "--d-ff", "16", "--label-smoothing", "0",  "--batch-size", "16", "--beam",    "1"},
      "m");
  const std::vector<Pair> drawn = translate::draw_number_tasks(20'040, 5);
  std::set<std::string> sources;
  for (const Pair& pair : drawn) sources.insert(pair.source);
  BOOST_CHECK_EQUAL(sources.size(), 20'040);  // no duplicates, so no pair is in both parts
  check_translator(folder, r, {drawn.begin(), drawn.begin() + 20'000}, {drawn.begin() + 20'000, drawn.end()});
}

// Half of the validation pairs are also trained on, so that the measures are neither 0 nor 1.
BOOST_AUTO_TEST_CASE(translations, *boost::unit_test::precondition(test::ends_in_time)) {
  const Folder folder("measures");
  std::vector<Pair> train, validation;
  for (int i = 0; i < 44; ++i) {
    const Pair pair = translate::number_task(4 * (1321 * i + 21'117) + 2);  // "en 21117" as words
    if (i < 30) train.push_back(pair);
    if (i >= 14) validation.push_back(pair);
  }
  std::string sources, targets, pairs;
  for (const Pair& pair : train) sources += pair.source + "\n", targets += pair.target + "\n";
  for (const Pair& pair : validation) pairs += pair.source + "\t" + pair.target + "\n";
  folder.write("src", sources);
  folder.write("tgt", targets);
  folder.write("val", pairs);
  const Finished r =
      run_training(folder,
                   words("translate train --seed 5 --src src --tgt tgt --val-pairs val" + kSmallTranslator +
                         "--epochs 100 --eval-interval 100 --schedule const --norm post --warmup-steps 20 --beam 1 "
                         "--length-penalty 0 --average 1"),
                   "m");
  const SavedTranslator saved = check_translator(folder, r, train, validation);
  const auto languages = translate::Languages::from_json(saved.config["languages"]);

  const Result eval = folder.run({"translate", "eval", "--model", "m", "--pairs", "val", "--beam", "1",
                                  "--length-penalty", "0", "--out", "out", "--json"});
  BOOST_REQUIRE_MESSAGE(eval.code == 0, eval.err);
  std::vector<Words> translations, references;
  std::istringstream lines(read(folder.path / "out"));
  double exact = 0, of_the_book = 0;
  for (const Pair& pair : validation) {
    std::string line;
    std::getline(lines, line);
    BOOST_CHECK_EQUAL(line, greedy_translation(saved.model, languages, pair.source));
    translations.push_back(translate::words_of(line));
    references.push_back(translate::words_of(pair.target));
    exact += line == pair.target;
    of_the_book += translate::bleu_k(translations.back(), references.back(), 2);
  }
  const auto count = static_cast<double>(validation.size());
  for (const Json& told : {Json::parse(r.summary.dump()), last_line(eval.out)}) {
    BOOST_CHECK_EQUAL(told["val_exact"].get<double>(), exact / count);
    check_near(told["val_bleu"], 100 * naive_bleu(translations, references));
    check_near(told["val_bleu_2"], 100 * of_the_book / count);
  }
  const double bleu = r.summary["val_bleu"].get<double>();
  BOOST_CHECK_MESSAGE(bleu > 10 && bleu < 95 && exact > 2 && exact < count, bleu << ", " << exact);
}

// Which pairs are for training and for validation, and how many.
BOOST_AUTO_TEST_CASE(pairs_are_split_by_their_place) {
  const Folder folder("measures");
  std::string pairs;
  for (int i = 0; i < 20; ++i) pairs += "s" + std::to_string(i) + "\tt" + std::to_string(i) + "\n";
  folder.write("p", pairs);
  folder.write("v", "s3\tt3\nnew\tone\ns5\tt4\n");
  const auto numbers = [](const std::vector<Pair>& some) {
    Tokens all;
    for (const Pair& pair : some) {
      BOOST_CHECK_EQUAL(pair.source.substr(1), pair.target.substr(1));
      all.push_back(std::stoi(pair.source.substr(1)));
    }
    return all;
  };
  const auto range = [](int begin, int end) {
    Tokens all;
    for (int i = begin; i < end; ++i) all.push_back(i);
    return all;
  };
  translate::DataConfig config;
  config.train.pairs = folder.path / "p";
  for (const auto& [most, held_back] : {std::pair(0, 6), {0, 19}, {0, 1}, {12, 5}, {20, 4}, {99, 4}}) {
    config.max_pairs = most;
    config.validation = held_back;
    const translate::Corpus data = translate::load(config, 1);
    const int all = most == 0 ? 20 : std::min(20, most);
    BOOST_CHECK(numbers(data.train) == range(0, all - held_back));
    BOOST_CHECK(numbers(data.validation) == range(all - held_back, all));
    BOOST_CHECK_EQUAL(data.shared(), 0);
  }
  config.validation = 20;
  BOOST_CHECK_THROW(translate::load(config, 1), examples::UsageError);
  config.val.pairs = folder.path / "v";
  config.max_pairs = 4;
  const translate::Corpus data = translate::load(config, 1);
  BOOST_CHECK(numbers(data.train) == range(0, 4));
  BOOST_CHECK_EQUAL(data.validation.size(), 3);
  BOOST_CHECK_EQUAL(data.shared(), 1);
  // Drawn from the seed, so reproducible.
  config = {};
  config.validation = 50;
  const translate::Corpus a = translate::load(config, 1), b = translate::load(config, 1),
                          c = translate::load(config, 2);
  BOOST_CHECK(a.train.size() == 20'000 && a.validation.size() == 50 && a.shared() == 0);
  std::set<std::string> of_a, of_c;
  for (const Pair& pair : a.validation) of_a.insert(pair.source);
  for (const Pair& pair : c.validation) of_c.insert(pair.source);
  BOOST_CHECK(a.train[7].source == b.train[7].source && a.validation[7].target == b.validation[7].target);
  of_c.merge(of_a);
  BOOST_CHECK_GT(of_c.size(), 95);
}

// A translation is right if its words are, on the page of the report as in the measure: more blanks make no difference.
BOOST_AUTO_TEST_CASE(blanks_make_no_translation_wrong) {
  const Folder folder("measures");
  folder.write("pairs", "a b\tx  y\nb a\ty x \na\t x\nb\ty\n");
  const Result r =
      folder.run(words("translate train --pairs pairs --val-pairs pairs --tokens words --min-frequency 1 "
                       "--d-model 32 --heads 4 --d-ff 64 --enc-layers 1 --dec-layers 1 --dropout 0 "
                       "--max-length 8 --batch-size 4 --lr 0.005 --label-smoothing 0 --schedule const "
                       "--warmup-steps 0 --epochs 150 --eval-interval 150 --average 1 --report --json "
                       "--log-format none --out m"));
  BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
  BOOST_CHECK_EQUAL(last_line(r.out)["val_exact"], 1);
  const std::string page = read(folder.path / "m/report.html"), open = "id=\"data\">";
  const std::size_t begin = page.find(open) + open.size();
  const auto data = nlohmann::json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  BOOST_CHECK_EQUAL(data["samples"].size(), 4u);
  for (const auto& sample : data["samples"]) BOOST_CHECK_EQUAL(sample["output"], sample["expected"]);
}
