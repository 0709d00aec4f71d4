#include "translate/data.h"

#include "translate/numbers.h"

#include <seppo/autograd/core/check.h>

#include <fmt/format.h>

#include <algorithm>

namespace translate {

using examples::UsageError;

namespace {
constexpr int kDrawn = 20'000;  // number tasks for training
}

void DataOptions::add_to(examples::CommandLine& line) {
  line.section("Data");
  line.existing_path("src", &src, "source texts, one a line; without --src or --pairs: numbers and dates");
  line.existing_path("tgt", &tgt, "their translations, line by line");
  line.existing_path("pairs", &pairs, "lines of source, tab, target");
  line.existing_path("val-src", &val_src, "source texts for validation");
  line.existing_path("val-tgt", &val_tgt, "their translations");
  line.existing_path("val-pairs", &val_pairs, "pairs for validation");
  line.integer("max-pairs", &max_pairs, 0, 1'000'000'000, "use only the first pairs; 0: all");
  line.integer("validation", &validation, 1, 1'000'000, "where no file is for validation: the last pairs, so many");
  line.choice("tokens", &tokens, {"words", "characters", "subwords"},
              "what texts are cut into; subwords are found by sentencepiece");
  line.integer("min-frequency", &min_frequency, 1, 1'000'000, "rarer tokens of the training texts count as unknown");
  line.integer("subwords", &subwords, 8, 1'000'000, "how many subwords, for both languages together");
  line.flag("normalise", &normalise, "make letters small and put blanks before , . ! ?");
}

void DataOptions::validate(const examples::CommandLine& line) const {
  if (src.empty() != tgt.empty()) throw UsageError("--src and --tgt: one needs the other");
  if (!src.empty() && !pairs.empty()) throw UsageError("--pairs: cannot be used with --src");
  if (val_src.empty() != val_tgt.empty()) throw UsageError("--val-src and --val-tgt: one needs the other");
  if (!val_src.empty() && !val_pairs.empty()) throw UsageError("--val-pairs: cannot be used with --val-src");
  if (!has_files() && (!val_src.empty() || !val_pairs.empty()))
    throw UsageError("--val-src, --val-pairs: need training texts, too (--src or --pairs)");
  if (!has_files() && validation > kDrawn)
    throw UsageError(fmt::format("--validation: at most {} number tasks", kDrawn));
  if (line.given("subwords") && tokens != "subwords") throw UsageError("--subwords: needs --tokens subwords");
}

nlohmann::json DataOptions::to_json() const {
  return {{"src", src.string()},
          {"tgt", tgt.string()},
          {"pairs", pairs.string()},
          {"val_src", val_src.string()},
          {"val_tgt", val_tgt.string()},
          {"val_pairs", val_pairs.string()},
          {"max_pairs", max_pairs},
          {"validation", validation},
          {"tokens", tokens},
          {"min_frequency", min_frequency},
          {"subwords", subwords},
          {"normalise", normalise}};
}

std::vector<Pair> read_files(const std::filesystem::path& src, const std::filesystem::path& tgt,
                             const std::filesystem::path& pairs) {
  return pairs.empty() ? read_lines(src, tgt) : read_tab_separated(pairs);
}

Data load(const DataOptions& o, std::uint64_t seed) {
  Data data;
  data.train = o.has_files() ? read_files(o.src, o.tgt, o.pairs) : draw_number_tasks(kDrawn + o.validation, seed);
  const bool has_validation_files = !o.val_src.empty() || !o.val_pairs.empty();
  if (o.max_pairs > 0) data.train.resize(std::min(data.train.size(), static_cast<std::size_t>(o.max_pairs)));
  if (has_validation_files) {
    data.validation = read_files(o.val_src, o.val_tgt, o.val_pairs);
    return data;
  }
  const auto held_back = static_cast<std::size_t>(o.validation);
  if (data.train.size() <= held_back)
    throw UsageError(fmt::format("--validation: {} of {} pairs leave none for training", held_back, data.train.size()));
  const auto cut = data.train.end() - static_cast<std::ptrdiff_t>(held_back);
  data.validation.assign(cut, data.train.end());
  data.train.erase(cut, data.train.end());
  return data;
}

Languages make_languages(const DataOptions& o, const std::vector<Pair>& train) {
  Languages languages;
  languages.tokenizer =
      Tokenizer(o.tokens == "characters" ? Tokenizer::Kind::characters : Tokenizer::Kind::words, o.normalise);
  if (o.tokens == "subwords") {
    std::vector<std::string> texts;
    for (const Pair& pair : train)
      for (const std::string& text : {pair.source, pair.target}) texts.push_back(languages.tokenizer.prepare(text));
    languages.tokenizer = Tokenizer(std::make_shared<const Subwords>(Subwords::train(texts, o.subwords)), o.normalise);
  }
  std::vector<std::vector<std::string>> sources, targets;
  for (const Pair& pair : train) {
    sources.push_back(languages.tokenizer.split(pair.source));
    targets.push_back(languages.tokenizer.split(pair.target));
  }
  languages.source = make_vocabulary(sources, o.min_frequency);
  languages.target = make_vocabulary(targets, o.min_frequency);
  return languages;
}

}  // namespace translate
