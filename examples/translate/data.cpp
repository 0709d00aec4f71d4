// Reads or generates the pairs, and holds some out for validation.
#include "translate/data.h"

#include "app/command_line.h"
#include "translate/numbers.h"

#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/printable.h>
#include <seppo/nn/io/text_file.h>

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

namespace translate {

using examples::UsageError;
using seppo::check;
using seppo::FormatError;
using seppo::printable_path;

namespace {

constexpr int kDrawn = 20'000;  // number tasks for training

std::vector<std::string> read_lines(const std::filesystem::path& path) {
  std::vector<std::string> lines;
  seppo::TextReader(path).for_each_line([&](std::string_view line) { lines.emplace_back(line); });
  check<FormatError>(!lines.empty(), printable_path(path), ": is empty");
  return lines;
}

std::vector<Pair> read_two(const std::filesystem::path& src, const std::filesystem::path& tgt) {
  const std::vector<std::string> sources = read_lines(src), targets = read_lines(tgt);
  check<FormatError>(sources.size() == targets.size(), printable_path(src), " has ", sources.size(), " lines, but ",
                     printable_path(tgt), " has ", targets.size());
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < sources.size(); ++i) pairs.push_back({sources[i], targets[i]});
  return pairs;
}

std::vector<Pair> read_one(const std::filesystem::path& path) {
  std::vector<Pair> pairs;
  for (const std::string& line : read_lines(path)) {
    const std::size_t tab = line.find('\t');
    check<FormatError>(tab != std::string::npos, printable_path(path), ":", pairs.size() + 1, ": '",
                       seppo::printable(line), "' has no tab between source and target");
    const std::size_t end = std::min(line.find('\t', tab + 1), line.size());
    pairs.push_back({line.substr(0, tab), line.substr(tab + 1, end - tab - 1)});
  }
  return pairs;
}

}  // namespace

void Files::fields(seppo::ConfigVisitor& v, const std::string& prefix) {
  const std::string use = prefix.empty() ? "" : " for validation";
  v((prefix + "src").c_str(), src, "source texts" + use + ", one per line");
  v((prefix + "tgt").c_str(), tgt, "their translations, line by line");
  v((prefix + "pairs").c_str(), pairs, "lines of source, tab, target" + use);
}

void Files::validate(const std::string& prefix) const {
  if (src.empty() != tgt.empty()) throw UsageError(fmt::format("--{0}src and --{0}tgt: one needs the other", prefix));
  if (!src.empty() && !pairs.empty()) throw UsageError(fmt::format("--{0}pairs: cannot be used with --{0}src", prefix));
}

std::vector<Pair> Files::read() const { return pairs.empty() ? read_two(src, tgt) : read_one(pairs); }

void DataConfig::fields(seppo::ConfigVisitor& v) {
  train.fields(v);
  val.fields(v, "val_");
  v("max_pairs", max_pairs, {0, 1e9}, "use only the first pairs; 0 for all");
  v("validation", validation, {1, 1e6}, "without validation files, hold out this many pairs from the end");
  tokenizer.fields(v);
  v("min_frequency", min_frequency, {1, 1e6},
    "words and characters that are rarer in the training texts count as unknown");
  v("subwords", subwords, {257, 1e6}, "size of the subword vocabulary, shared by both languages");
}

void DataConfig::validate() const {
  train.validate();
  val.validate("val-");
  if (train.are_given()) return;
  if (val.are_given()) throw UsageError("--val-src, --val-pairs: need training texts as well (--src or --pairs)");
  if (validation > kDrawn) throw UsageError(fmt::format("--validation: at most {} number tasks", kDrawn));
}

std::vector<std::string> texts_of(const std::vector<Pair>& pairs) {
  std::vector<std::string> texts;
  for (const Pair& pair : pairs) texts.insert(texts.end(), {pair.source, pair.target});
  return texts;
}

std::size_t Corpus::shared() const {
  std::set<std::pair<std::string_view, std::string_view>> known;
  for (const Pair& pair : train) known.emplace(pair.source, pair.target);
  return static_cast<std::size_t>(std::ranges::count_if(validation, [&](const Pair& pair) {
    return known.contains({pair.source, pair.target});
  }));
}

Corpus load(const DataConfig& c, std::uint64_t seed) {
  Corpus corpus;
  std::vector<Pair>& train = corpus.train;
  train = c.train.are_given() ? c.train.read() : draw_number_tasks(kDrawn + c.validation, seed);
  if (c.max_pairs > 0) train.resize(std::min(train.size(), static_cast<std::size_t>(c.max_pairs)));
  if (c.val.are_given()) {
    corpus.validation = c.val.read();
    return corpus;
  }
  const auto held_back = static_cast<std::size_t>(c.validation);
  if (train.size() <= held_back)
    throw UsageError(fmt::format("--validation: {} of {} pairs leave none for training", held_back, train.size()));
  const auto cut = train.end() - c.validation;
  corpus.validation.assign(cut, train.end());
  train.erase(cut, train.end());
  return corpus;
}

Languages make_languages(const DataConfig& c, const std::vector<Pair>& train) {
  Tokenizer tokenizer = c.tokenizer;
  if (tokenizer.has_subwords()) {
    std::vector<std::string> texts;
    for (const Pair& pair : train)
      for (const std::string& text : {pair.source, pair.target}) texts.push_back(tokenizer.prepare(text));
    tokenizer.subwords = learn_subwords(texts, c.subwords);
    const seppo::Vocabulary both = make_vocabulary(tokenizer.subwords);
    return {tokenizer, both, both};
  }
  std::vector<Words> sources, targets;
  for (const Pair& pair : train) {
    sources.push_back(tokenizer.split(pair.source));
    targets.push_back(tokenizer.split(pair.target));
  }
  return {tokenizer, make_vocabulary(sources, c.min_frequency), make_vocabulary(targets, c.min_frequency)};
}

}  // namespace translate
