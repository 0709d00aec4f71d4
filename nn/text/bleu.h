// BLEU: how well translations agree with reference translations, measured by shared n-grams (Papineni et al. 2002).
//
//   corpus_bleu(translations, references).score  // of sentences, with one reference for each
#pragma once

#include "../../autograd/core/real.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace seppo {
inline namespace SEPPO_ABI {

using Sentence = std::vector<std::string>;  // its words

struct Bleu {
  double score = 0;                  // in 0..1: brevity_penalty times the geometric mean of the precisions
  std::vector<double> precisions;    // of 1-grams, 2-grams, ...: the fraction of n-grams found in a reference
  std::vector<std::size_t> ngrams;   // in the translations, of each length; where there is none, the precision is 0
  double brevity_penalty = 1;        // exp(1 - reference_length / length) if that is below 1
  std::size_t length = 0;            // words of all translations
  std::size_t reference_length = 0;  // of the reference closest in length to each; the shorter of two equally close
  bool is_defined = false;           // some reference is as long as the longest n-grams; otherwise the score is 0
};

// Corpus BLEU, as in publications: the counts of all sentences are added before dividing, each n-gram of a translation
// counts at most as often as in the reference that has it most often, and nothing is smoothed, so a corpus that shares
// no n-gram of some length scores 0. references[i] are those of translations[i]. Throws ShapeError unless there are
// equally many of both and each translation has a reference; ArgumentError unless max_n is positive.
Bleu corpus_bleu(std::span<const Sentence> translations, std::span<const std::vector<Sentence>> references,
                 int max_n = 4);
// With one reference each.
Bleu corpus_bleu(std::span<const Sentence> translations, std::span<const Sentence> references, int max_n = 4);

}  // namespace SEPPO_ABI
}  // namespace seppo
