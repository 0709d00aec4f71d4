// The text normalisation and the translation score of the book "Dive into Deep Learning".
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace translate {

// Narrow and other no-break spaces become spaces, Latin, Greek and Cyrillic letters become lower-case, and a space is
// inserted before each of , . ! ? that lacks one.
std::string normalised(std::string_view text);

// exp(min(0, 1 - |label| / |prediction|)) prod_n p_n^(1 / 2^n) for n from 1 to k, or to the words of a shorter
// prediction, where p_n is the fraction of the prediction's n-grams that the label also contains, each counted at most
// as often as in the label. For one sentence; 0 for an empty prediction. This is not the BLEU of publications, which is
// corpus_bleu().
double bleu_k(std::span<const std::string> prediction, std::span<const std::string> label, int k);

}  // namespace translate
