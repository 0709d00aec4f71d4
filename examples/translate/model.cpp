// Batches of translation pairs, the loss on them, and scores of whole data sets on all threads.
#include "translate/model.h"

#include "translate/d2l.h"

#include <seppo/autograd/core/observer.h>
#include <seppo/autograd/core/parallel.h>
#include <seppo/nn/train/interrupts.h>
#include <seppo/nn/train/ranks.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

namespace translate {
namespace {

bool is_long(const std::vector<int>& text, int most) { return text.size() > static_cast<std::size_t>(most); }

// Rows sorted by length, so that those of a chunk have similar lengths.
std::vector<int> by_length(std::span<const int> lengths) {
  std::vector<int> rows(lengths.size());
  std::iota(rows.begin(), rows.end(), 0);
  std::stable_sort(rows.begin(), rows.end(), [&](int a, int b) {
    return lengths[static_cast<std::size_t>(a)] < lengths[static_cast<std::size_t>(b)];
  });
  return rows;
}

std::vector<int> lengths_of(std::span<const std::vector<int>> texts) {
  std::vector<int> lengths;
  for (const auto& text : texts) lengths.push_back(static_cast<int>(text.size()));
  return lengths;
}

// The decoder's input for this target: BOS, then the target without its last token.
std::vector<int> decoder_input(std::span<const int> target) {
  std::vector<int> tokens{kBos};
  tokens.insert(tokens.end(), target.begin(), target.end() - (target.empty() ? 0 : 1));
  return tokens;
}

struct Batch {
  Ragged source, target_in;
  std::vector<int> target;
};

Batch batch_of(const Examples& examples, std::span<const int> rows) {
  Batch batch;
  for (const int row : rows) {
    const auto& tokens = examples.targets[static_cast<std::size_t>(row)];
    batch.source.add(examples.sources[static_cast<std::size_t>(row)]);
    batch.target_in.add(decoder_input(tokens));
    batch.target.insert(batch.target.end(), tokens.begin(), tokens.end());
  }
  return batch;
}

double count_right(const seppo::Tensor& logits, std::span<const int> targets) {
  const std::vector<int> best = seppo::argmax(logits);
  double right = 0;
  for (std::size_t i = 0; i < targets.size(); ++i) right += best[i] == targets[i] && targets[i] != kUnknown;
  return right;
}

Words characters_of(const Words& words) {
  Words characters;
  for (const std::string& word : words)
    for (std::string& character : Tokenizer(Tokenizer::Kind::characters).split(word))
      characters.push_back(std::move(character));
  return characters;
}

Bleu bleu_of_characters(std::span<const Words> translations, std::span<const Words> references) {
  std::vector<Words> written, right;
  for (const Words& words : translations) written.push_back(characters_of(words));
  for (const Words& words : references) right.push_back(characters_of(words));
  return seppo::corpus_bleu(written, right);
}

// The words of a translation as they are scored: the special tokens equal no word of a reference.
Words scored_words(const Languages& languages, std::string_view translation) {
  Words words = words_of(translation);
  for (std::string& word : words)
    if (languages.target.contains(word) && languages.target.id(word) < kSpecials) word.clear();
  return words;
}

}  // namespace

std::vector<int> Examples::lengths() const {
  std::vector<int> lengths;
  for (std::size_t i = 0; i < size(); ++i) lengths.push_back(static_cast<int>(sources[i].size() + targets[i].size()));
  return lengths;
}

std::size_t Examples::drop_long(int most) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < size(); ++i) {
    if (is_long(sources[i], most) || is_long(targets[i], most)) continue;
    std::swap(sources[kept], sources[i]);
    std::swap(targets[kept++], targets[i]);
  }
  const std::size_t dropped = size() - kept;
  sources.resize(kept);
  targets.resize(kept);
  return dropped;
}

std::size_t Examples::truncate_long(int most) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < size(); ++i) {
    count += is_long(sources[i], most) || is_long(targets[i], most);
    for (auto* text : {&sources[i], &targets[i]})
      if (is_long(*text, most)) text->resize(static_cast<std::size_t>(most)), text->back() = kEos;
  }
  return count;
}

Examples encode(const Languages& languages, std::span<const Pair> pairs) {
  Examples examples;
  for (const Pair& pair : pairs) {
    examples.sources.push_back(languages.encode(languages.source, pair.source));
    examples.targets.push_back(languages.encode(languages.target, pair.target));
  }
  return examples;
}

Coverage coverage(std::span<const std::vector<int>> texts) {
  Coverage all;
  for (const std::vector<int>& text : texts) {
    all.tokens += text.size() - 1;
    all.unknown += static_cast<std::size_t>(std::ranges::count(text, static_cast<int>(kUnknown)));
  }
  return all;
}

seppo::ShardLoss loss(const Transformer& model, const Examples& examples, std::span<const int> rows,
                      double label_smoothing) {
  const Batch batch = batch_of(examples, rows);
  const seppo::Tensor logits = model.logits(batch.source, batch.target_in);
  const seppo::CrossEntropyOptions options{.label_smoothing = label_smoothing, .reduction = seppo::Reduction::sum};
  return {.loss = seppo::cross_entropy(logits, batch.target, options),
          .count = static_cast<double>(batch.target.size()),
          .correct = count_right(logits, batch.target)};
}

seppo::Sums loss_of_all(const Transformer& model, const Examples& examples) {
  const auto loss_of_some = [&](std::span<const int> rows) {
    const Batch batch = batch_of(examples, rows);
    const seppo::Tensor logits = model.logits(batch.source, batch.target_in);
    const auto unknown = std::ranges::count(batch.target, static_cast<int>(kUnknown));
    return seppo::ShardLoss{.loss = seppo::cross_entropy(
                                logits, batch.target, {.ignore_index = kUnknown, .reduction = seppo::Reduction::sum}),
                            .count = static_cast<double>(std::ssize(batch.target) - unknown),
                            .correct = count_right(logits, batch.target)};
  };
  return seppo::evaluate(by_length(examples.lengths()), loss_of_some, kChunk);
}

std::vector<std::vector<seppo::Hypothesis>> translate(const Transformer& model,
                                                      std::span<const std::vector<int>> sources,
                                                      const seppo::BeamOptions& options) {
  std::vector<std::vector<seppo::Hypothesis>> results(sources.size());
  const std::vector<int> rows = by_length(lengths_of(sources));
  seppo::parallel_for(0, rows.size(), kChunk, [&](std::size_t first, std::size_t last) {
    seppo::stop_if_interrupted();
    const auto chunk = std::span(rows).subspan(first, last - first);
    Ragged batch;
    for (const int row : chunk) batch.add(sources[static_cast<std::size_t>(row)]);
    auto found = beam_search(model, batch, options);
    for (std::size_t i = 0; i < chunk.size(); ++i) results[static_cast<std::size_t>(chunk[i])] = std::move(found[i]);
  });
  return results;
}

std::vector<std::vector<int>> best_translations(const Transformer& model, std::span<const std::vector<int>> sources,
                                                const seppo::BeamOptions& options) {
  const std::vector<int> rows = by_length(lengths_of(sources));
  const auto rank_of = [](std::size_t i) { return i / kChunk % static_cast<std::size_t>(seppo::ranks()); };
  std::vector<std::vector<int>> own;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rank_of(i) == static_cast<std::size_t>(seppo::rank()))
      own.push_back(sources[static_cast<std::size_t>(rows[i])]);
  std::string found;  // the length and the tokens of each translation
  const auto add = [&](int number) { found.append(reinterpret_cast<const char*>(&number), sizeof number); };
  for (const auto& hypotheses : translate(model, own, options)) {
    add(static_cast<int>(hypotheses[0].tokens.size()));
    std::ranges::for_each(hypotheses[0].tokens, add);
  }
  const std::vector<std::string> all = seppo::gather_over_ranks(found);
  std::vector<std::size_t> at(all.size());  // read position in each rank's translations
  const auto next = [&](std::size_t rank) {
    int number;
    std::memcpy(&number, all[rank].data() + std::exchange(at[rank], at[rank] + sizeof number), sizeof number);
    return number;
  };
  std::vector<std::vector<int>> results(sources.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::vector<int>& tokens = results[static_cast<std::size_t>(rows[i])];
    tokens.resize(static_cast<std::size_t>(next(rank_of(i))));
    for (int& token : tokens) token = next(rank_of(i));
  }
  return results;
}

bool lack_blanks(std::span<const Words> references) {
  constexpr std::size_t kLongWord = 12, kWordsOfBleu = 4;
  std::size_t words = 0, characters = 0;
  bool are_short = true;
  for (const Words& reference : references) {
    words += reference.size();
    characters += characters_of(reference).size();
    are_short = are_short && reference.size() < kWordsOfBleu;
  }
  return are_short || characters > kLongWord * words;
}

Score score(const Transformer& model, const Languages& languages, std::span<const Pair> pairs,
            const seppo::BeamOptions& options) {
  Score result;
  Examples examples = encode(languages, pairs);
  result.truncated = examples.truncate_long(model.config.max_length);
  const seppo::Sums sums = loss_of_all(model, examples);
  result.source = coverage(examples.sources);
  result.target = coverage(examples.targets);
  result.loss = sums.mean("loss");
  result.accuracy = sums["correct"] / (sums["count"] + static_cast<double>(result.target.unknown));
  std::vector<Words> translations, references;
  for (const std::vector<int>& tokens : best_translations(model, examples.sources, options))
    result.translations.push_back(languages.decode(tokens));
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    translations.push_back(scored_words(languages, result.translations[i]));
    references.push_back(words_of(languages.tokenizer.prepare(pairs[i].target)));
    result.exact += translations.back() == references.back();
    result.bleu_2 += bleu_k(translations.back(), references.back(), 2);
  }
  result.exact /= static_cast<double>(pairs.size());
  result.bleu_2 /= static_cast<double>(pairs.size());
  result.bleu = seppo::corpus_bleu(translations, references);
  if (lack_blanks(references)) result.bleu_characters = bleu_of_characters(translations, references);
  return result;
}

examples::Sample sample_of(const Transformer& model, const Languages& languages, std::span<const int> source,
                           std::span<const int> target) {
  examples::Sample sample{.input = {}, .expected = {}, .output = languages.decode(target)};
  seppo::AttentionRecorder recorder;
  {
    const seppo::Inference guard;
    const seppo::Observe scope(recorder);
    Ragged sources, targets;
    sources.add(source);
    targets.add(decoder_input(target));
    model.logits(sources, targets);
  }
  sample.maps = std::move(recorder.maps);
  std::vector<std::string> read, written;
  for (const int id : source) read.push_back(languages.source.token(id));
  for (const int id : decoder_input(target)) written.push_back(languages.target.token(id));
  sample.labels = [read, written](const seppo::AttentionMap& map) -> examples::AttentionLabels {
    const bool in_encoder = map.name.starts_with("encoder"), is_cross = map.name.ends_with("cross_attn");
    return {in_encoder ? read : written, in_encoder || is_cross ? read : written};
  };
  return sample;
}

}  // namespace translate
