// BLEU: n-grams as spans into the words, counted in maps.
#include "bleu.h"

#include "../../autograd/core/check.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace seppo {
inline namespace SEPPO_ABI {

namespace {

using Ngram = std::span<const std::string>;

struct InOrder {
  bool operator()(Ngram a, Ngram b) const {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
  }
};
using Counts = std::map<Ngram, std::size_t, InOrder>;

Counts ngrams(std::span<const std::string> words, std::size_t n) {
  Counts counts;
  for (std::size_t i = 0; i + n <= words.size(); ++i) ++counts[words.subspan(i, n)];
  return counts;
}

// How often each n-gram occurs in the reference that has it most often.
Counts most_frequent(const std::vector<Sentence>& references, std::size_t n) {
  Counts most;
  for (const Sentence& reference : references)
    for (const auto& [ngram, count] : ngrams(reference, n)) most[ngram] = std::max(most[ngram], count);
  return most;
}

// How many of the words' n-grams are found in a reference.
std::size_t matches(const Sentence& words, const std::vector<Sentence>& references, std::size_t n) {
  const Counts most = most_frequent(references, n);
  std::size_t matching = 0;
  for (const auto& [ngram, count] : ngrams(words, n)) {
    const auto found = most.find(ngram);
    if (found != most.end()) matching += std::min(count, found->second);
  }
  return matching;
}

std::size_t closest_length(std::size_t length, const std::vector<Sentence>& references) {
  const auto by_distance = [&](const Sentence& r) {
    const std::size_t distance = r.size() > length ? r.size() - length : length - r.size();
    return std::pair(distance, r.size());
  };
  return std::ranges::min(references, {}, by_distance).size();
}

double ratio(std::size_t a, std::size_t b) { return b > 0 ? static_cast<double>(a) / static_cast<double>(b) : 0; }

void add_lengths(Bleu& bleu, const Sentence& translation, const std::vector<Sentence>& references,
                 std::size_t longest_ngrams) {
  bleu.length += translation.size();
  bleu.reference_length += closest_length(translation.size(), references);
  for (const Sentence& reference : references) bleu.is_defined = bleu.is_defined || reference.size() >= longest_ngrams;
}

// Adds the precision of the n-grams of all sentences together.
void add_precision(Bleu& bleu, std::span<const Sentence> translations,
                   std::span<const std::vector<Sentence>> references, std::size_t n) {
  std::size_t matching = 0;
  std::size_t all = 0;
  for (std::size_t i = 0; i < translations.size(); ++i) {
    const std::size_t words = translations[i].size();
    matching += matches(translations[i], references[i], n);
    all += words >= n ? words - n + 1 : 0;
  }
  bleu.precisions.push_back(ratio(matching, all));
  bleu.ngrams.push_back(all);
}

double brevity_penalty(const Bleu& bleu) {
  if (bleu.length >= bleu.reference_length) return 1;
  if (bleu.length == 0) return 0;
  return std::exp(1 - ratio(bleu.reference_length, bleu.length));
}

}  // namespace

Bleu corpus_bleu(std::span<const Sentence> translations, std::span<const std::vector<Sentence>> references, int max_n) {
  check<ArgumentError>(max_n > 0, "bleu: max_n ", max_n, " is not positive");
  check(translations.size() == references.size(), "bleu: ", translations.size(), " translations, but references for ",
        references.size());
  const auto longest = static_cast<std::size_t>(max_n);
  Bleu bleu;
  for (std::size_t i = 0; i < translations.size(); ++i) {
    check(!references[i].empty(), "bleu: translation ", i, " has no reference");
    add_lengths(bleu, translations[i], references[i], longest);
  }
  double log_sum = 0;
  for (std::size_t n = 1; n <= longest; ++n) {
    add_precision(bleu, translations, references, n);
    log_sum += std::log(bleu.precisions.back());
  }
  bleu.brevity_penalty = brevity_penalty(bleu);
  bleu.score = bleu.brevity_penalty * std::exp(log_sum / max_n);
  return bleu;
}

Bleu corpus_bleu(std::span<const Sentence> translations, std::span<const Sentence> references, int max_n) {
  std::vector<std::vector<Sentence>> lists;
  for (const Sentence& reference : references) lists.push_back({reference});
  return corpus_bleu(translations, lists, max_n);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
