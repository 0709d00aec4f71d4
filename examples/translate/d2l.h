// What the book "Dive into Deep Learning" does to text, and how it scores translations.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace translate {

// Narrow and other no-break spaces become blanks, letters become small (Latin, Greek and Cyrillic ones), and a blank
// is put before each of , . ! ? that has none.
std::string normalised(std::string_view text);

// exp(min(0, 1 - |label| / |prediction|)) prod_{n = 1..k} p_n^(1 / 2^n), where p_n is the share of the prediction's
// n-grams that the label has, too, each counted as often as the label has it. For one sentence; 0 if the prediction
// has fewer than k words. Not the BLEU of publications, which is corpus_bleu().
double bleu_k(std::span<const std::string> prediction, std::span<const std::string> label, int k);

}  // namespace translate
