// Scores of whole data sets on all threads and ranks, as numbers and as text.
#include "translate/score.h"

#include "app/run_program.h"
#include "translate/d2l.h"

#include <seppo/nn/train/evaluate.h>
#include <seppo/nn/train/ranks.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <iterator>

namespace translate {

using examples::UsageError;
using nlohmann::json;
using seppo::Bleu;

namespace {

// Examples sorted by length, so that those of a chunk have similar lengths.
std::vector<int> by_length(const Examples& all) {
  const std::vector<int> lengths = all.lengths();
  std::vector<int> sorted = examples::first_indices(all.size());
  std::ranges::stable_sort(sorted, {}, [&](int i) { return lengths[static_cast<std::size_t>(i)]; });
  return sorted;
}

// Each text is empty in all ranks but one.
std::vector<std::string> gathered(const std::vector<std::string>& texts) {
  std::vector<std::string> all(texts.size());
  for (const std::string& of_a_rank : seppo::gather_over_ranks(json(texts).dump())) {
    const json parts = json::parse(of_a_rank);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] += parts[i].get_ref<const std::string&>();
  }
  return all;
}

// The words of a translation as they are scored: the special tokens equal no word of a reference.
Words scored_words(const Languages& languages, std::string_view translation) {
  Words words = words_of(translation);
  for (std::string& word : words)
    if (languages.target.contains(word) && languages.target.id(word) < kSpecials) word.clear();
  return words;
}

std::vector<Words> in_characters(std::span<const Words> texts) {
  std::vector<Words> all;
  for (const Words& words : texts) all.push_back(characters_of(examples::joined(words, "")));
  return all;
}

json percent_of(const Bleu& bleu) { return bleu.is_defined ? json(100 * bleu.score) : json(); }

// "37.71 (70.1 / 45.2 / 31.0 / 21.5, brevity 0.981)"; "-" for what is not defined.
std::string text_of(const Bleu& bleu) {
  std::vector<std::string> precisions;
  for (std::size_t n = 0; n < bleu.precisions.size(); ++n)
    precisions.push_back(bleu.ngrams[n] > 0 ? fmt::format("{:.1f}", 100 * bleu.precisions[n]) : "-");
  return fmt::format("{} ({}, brevity {:.3f})", bleu.is_defined ? fmt::format("{:.2f}", 100 * bleu.score) : "-",
                     fmt::join(precisions, " / "), bleu.brevity_penalty);
}

double checked_share(Tokenizer::Kind tokens, const Ragged& texts, const char* which) {
  const double share = coverage(texts).share();
  if (share <= 0.5) return share;
  const bool are_words = tokens == Tokenizer::Kind::words;
  throw UsageError(
      fmt::format("--tokens: {:.0f} % of the {} in the {} are unknown: {}", 100 * share,
                  are_words ? "words (between blanks)" : "tokens", which,
                  are_words ? "use --tokens characters or --tokens subwords"
                            : "they are not of the language of the training texts, or --min-frequency is too high"));
}

}  // namespace

json Score::measures() const {
  json measures = {{"perplexity", std::exp(loss)},
                   {"token_accuracy", accuracy},
                   {"bleu", percent_of(bleu)},
                   {"bleu_2", 100 * bleu_2},
                   {"exact", exact}};
  if (bleu_characters) measures["bleu_characters"] = percent_of(*bleu_characters);
  return measures;
}

json Score::summary() const {
  json all = measures();
  all.update({{"loss", loss}, {"unknown_targets", target.unknown}});
  return examples::with_prefix("val", all);
}

void Score::print() const {
  examples::print_fitted(fmt::format("{} pairs: BLEU {}  exact {:.2f} %  perplexity {:.3f}", translations.size(),
                                     text_of(bleu), 100 * exact, std::exp(loss)));
  if (bleu_characters) examples::print_fitted(fmt::format("BLEU of characters: {}", text_of(*bleu_characters)));
  if (target.unknown > 0)
    examples::print_fitted(fmt::format("{} of {} target tokens are unknown to the model: left out of the perplexity",
                                       target.unknown, target.tokens));
}

Score score(const Transformer& model, const Languages& languages, const Examples& examples,
            const seppo::BeamOptions& options) {
  std::vector<std::string> texts(examples.size());
  const auto score_some = [&](std::span<const int> some) -> seppo::Sums {
    const Examples batch = examples.pick(some);
    const auto found = beam_search(model, batch.source, options);  // first, because it frees its memory
    for (std::size_t i = 0; i < some.size(); ++i)
      texts[static_cast<std::size_t>(some[i])] = languages.decode(found[i][0].tokens);
    return loss(model, batch, {.ignore_index = kUnknown});
  };
  const seppo::Sums sums = seppo::evaluate(by_length(examples), score_some, kChunk);
  Score result{.target = coverage(examples.target), .translations = gathered(texts)};
  result.loss = sums.mean("loss");
  result.accuracy = sums["correct"] / (sums["count"] + static_cast<double>(result.target.unknown));
  const std::vector<Words> references = references_of(languages, examples.texts);
  std::vector<Words> translations;
  for (std::size_t i = 0; i < references.size(); ++i) {
    translations.push_back(scored_words(languages, result.translations[i]));
    result.exact += translations[i] == references[i];
    result.bleu_2 += bleu_k(translations[i], references[i], 2);
  }
  result.exact /= static_cast<double>(references.size());
  result.bleu_2 /= static_cast<double>(references.size());
  result.bleu = seppo::corpus_bleu(translations, references);
  if (lack_blanks(references))
    result.bleu_characters = seppo::corpus_bleu(in_characters(translations), in_characters(references));
  return result;
}

std::vector<Words> references_of(const Languages& languages, std::span<const Pair> pairs) {
  std::vector<Words> references;
  for (const Pair& pair : pairs) references.push_back(words_of(languages.tokenizer.prepare(pair.target)));
  return references;
}

bool lack_blanks(std::span<const Words> references) {
  constexpr std::size_t kLongWord = 12, kWordsOfBleu = 4;
  std::size_t words = 0, characters = 0;
  bool are_short = true;
  for (const Words& reference : references) {
    words += reference.size();
    characters += characters_of(examples::joined(reference, "")).size();
    are_short = are_short && reference.size() < kWordsOfBleu;
  }
  return are_short || characters > kLongWord * words;
}

std::string checked_coverage(Tokenizer::Kind tokens, const Examples& train, const Examples& validation) {
  const double source = checked_share(tokens, train.source, "training sources"),
               target = checked_share(tokens, train.target, "training targets"),
               val_source = checked_share(tokens, validation.source, "validation sources"),
               val_target = checked_share(tokens, validation.target, "validation targets");
  return fmt::format(
      "unknown tokens in source and target: {:.1f} % and {:.1f} % of training, {:.1f} % and {:.1f} % of validation",
      100 * source, 100 * target, 100 * val_source, 100 * val_target);
}

}  // namespace translate
