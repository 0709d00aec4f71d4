// Reads or generates the pairs, and holds some out for validation.
#include "translate/data.h"

#include "app/command_line.h"
#include "translate/numbers.h"

#include <seppo/autograd/core/check.h>

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

namespace translate {

using examples::UsageError;

namespace {
constexpr int kDrawn = 20'000;  // number tasks for training
}

void DataConfig::fields(seppo::ConfigVisitor& v) {
  v("src", src, "source texts, one per line; without --src or --pairs, numbers and dates are generated");
  v("tgt", tgt, "their translations, line by line");
  v("pairs", pairs, "lines of source, tab, target");
  v("val_src", val_src, "source texts for validation");
  v("val_tgt", val_tgt, "their translations");
  v("val_pairs", val_pairs, "pairs for validation");
  v("max_pairs", max_pairs, {0, 1e9}, "use only the first pairs; 0 for all");
  v("validation", validation, {1, 1e6}, "without validation files, hold out this many pairs from the end");
  v("tokens", tokens, "what a token is; subwords are found by sentencepiece");
  v("min_frequency", min_frequency, {1, 1e6}, "tokens that are rarer in the training texts count as unknown");
  v("subwords", subwords, {8, 1e6}, "size of the subword vocabulary, shared by both languages");
  v("normalise", normalise, "make letters lower-case and put blanks before , . ! ?");
}

void DataConfig::validate() const {
  if (src.empty() != tgt.empty()) throw UsageError("--src and --tgt: one needs the other");
  if (!src.empty() && !pairs.empty()) throw UsageError("--pairs: cannot be used with --src");
  if (val_src.empty() != val_tgt.empty()) throw UsageError("--val-src and --val-tgt: one needs the other");
  if (!val_src.empty() && !val_pairs.empty()) throw UsageError("--val-pairs: cannot be used with --val-src");
  if (!has_files() && has_validation_files())
    throw UsageError("--val-src, --val-pairs: need training texts as well (--src or --pairs)");
  if (!has_files() && validation > kDrawn)
    throw UsageError(fmt::format("--validation: at most {} number tasks", kDrawn));
}

std::vector<Pair> read_files(const std::filesystem::path& src, const std::filesystem::path& tgt,
                             const std::filesystem::path& pairs) {
  return pairs.empty() ? read_lines(src, tgt) : read_tab_separated(pairs);
}

std::size_t Data::shared() const {
  std::set<std::pair<std::string_view, std::string_view>> known;
  for (const Pair& pair : train) known.emplace(pair.source, pair.target);
  return static_cast<std::size_t>(std::ranges::count_if(validation, [&](const Pair& pair) {
    return known.contains({pair.source, pair.target});
  }));
}

Data load(const DataConfig& o, std::uint64_t seed) {
  Data data;
  data.train = o.has_files() ? read_files(o.src, o.tgt, o.pairs) : draw_number_tasks(kDrawn + o.validation, seed);
  if (o.max_pairs > 0) data.train.resize(std::min(data.train.size(), static_cast<std::size_t>(o.max_pairs)));
  if (o.has_validation_files()) {
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

Languages make_languages(const DataConfig& o, const std::vector<Pair>& train) {
  Languages languages;
  languages.tokenizer = Tokenizer(o.tokens, o.normalise);
  if (o.tokens == Tokenizer::Kind::subwords) {
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
