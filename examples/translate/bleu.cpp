// BLEU: n-grams as spans into the words, counted in maps.
#include "translate/bleu.h"

#include <seppo/autograd/core/check.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace translate {
namespace {

using Counts = std::map<std::span<const std::string>, std::size_t,
                        decltype([](std::span<const std::string> a, std::span<const std::string> b) {
                          return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
                        })>;

Counts ngrams(std::span<const std::string> words, std::size_t n) {
  Counts counts;
  for (std::size_t i = 0; i + n <= words.size(); ++i) ++counts[words.subspan(i, n)];
  return counts;
}

// How many of the words' n-grams are found in a reference.
std::size_t matches(const Words& words, const std::vector<Words>& references, std::size_t n) {
  Counts most;
  for (const Words& reference : references)
    for (const auto& [ngram, count] : ngrams(reference, n)) most[ngram] = std::max(most[ngram], count);
  std::size_t matching = 0;
  for (const auto& [ngram, count] : ngrams(words, n))
    if (const auto found = most.find(ngram); found != most.end()) matching += std::min(count, found->second);
  return matching;
}

std::size_t closest_length(std::size_t length, const std::vector<Words>& references) {
  const auto distance = [&](const Words& r) { return r.size() > length ? r.size() - length : length - r.size(); };
  return std::min_element(references.begin(), references.end(),
                          [&](const Words& a, const Words& b) {
                            return std::pair(distance(a), a.size()) < std::pair(distance(b), b.size());
                          })
      ->size();
}

}  // namespace

Bleu corpus_bleu(std::span<const Words> translations, std::span<const std::vector<Words>> references, int max_n) {
  seppo::check<seppo::ArgumentError>(max_n > 0, "bleu: max_n ", max_n, " is not positive");
  seppo::check(translations.size() == references.size(), "bleu: ", translations.size(),
               " translations, but references for ", references.size());
  Bleu bleu;
  for (std::size_t i = 0; i < translations.size(); ++i) {
    seppo::check(!references[i].empty(), "bleu: translation ", i, " has no reference");
    bleu.length += translations[i].size();
    bleu.reference_length += closest_length(translations[i].size(), references[i]);
    for (const Words& reference : references[i])
      bleu.is_defined = bleu.is_defined || reference.size() >= static_cast<std::size_t>(max_n);
  }
  double log_sum = 0;
  for (std::size_t n = 1; n <= static_cast<std::size_t>(max_n); ++n) {
    std::size_t matching = 0, all = 0;
    for (std::size_t i = 0; i < translations.size(); ++i) {
      matching += matches(translations[i], references[i], n);
      all += translations[i].size() >= n ? translations[i].size() - n + 1 : 0;
    }
    bleu.precisions.push_back(all > 0 ? static_cast<double>(matching) / static_cast<double>(all) : 0);
    bleu.ngrams.push_back(all);
    log_sum += std::log(bleu.precisions.back());
  }
  if (bleu.length < bleu.reference_length)
    bleu.brevity_penalty =
        bleu.length > 0 ? std::exp(1 - static_cast<double>(bleu.reference_length) / static_cast<double>(bleu.length))
                        : 0;
  bleu.score = bleu.brevity_penalty * std::exp(log_sum / max_n);
  return bleu;
}

Bleu corpus_bleu(std::span<const Words> translations, std::span<const Words> references, int max_n) {
  std::vector<std::vector<Words>> lists;
  for (const Words& reference : references) lists.push_back({reference});
  return corpus_bleu(translations, lists, max_n);
}

}  // namespace translate
