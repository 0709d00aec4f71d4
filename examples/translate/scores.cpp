// Scores as text and as JSON, and what makes them meaningless.
#include "translate/scores.h"

#include <fmt/format.h>

#include <cmath>
#include <iostream>

namespace translate {

using examples::UsageError;
using nlohmann::json;

namespace {

json percent_of(const Bleu& bleu) { return bleu.is_defined ? json(100 * bleu.score) : json(); }

// "37.71 (70.1 / 45.2 / 31.0 / 21.5, brevity 0.981)"; "-" for what is not defined.
std::string text_of(const Bleu& bleu) {
  std::vector<std::string> precisions;
  for (std::size_t n = 0; n < bleu.precisions.size(); ++n)
    precisions.push_back(bleu.ngrams[n] > 0 ? fmt::format("{:.1f}", 100 * bleu.precisions[n]) : "-");
  return fmt::format("{} ({}, brevity {:.3f})", bleu.is_defined ? fmt::format("{:.2f}", 100 * bleu.score) : "-",
                     fmt::join(precisions, " / "), bleu.brevity_penalty);
}

// Throws UsageError if most tokens are unknown: the model would learn to write <unk>.
void check_coverage(const DataConfig& config, const Coverage& found, const char* texts) {
  if (found.share() <= 0.5) return;
  const bool are_words = config.tokens == Tokenizer::Kind::words;
  throw UsageError(
      fmt::format("--tokens: {:.0f} % of the {} in the {} are unknown: {}", 100 * found.share(),
                  are_words ? "words (between blanks)" : "tokens", texts,
                  are_words ? "use --tokens characters or --tokens subwords"
                            : "they are not of the language of the training texts, or --min-frequency is too high"));
}

}  // namespace

examples::Evaluation evaluation_of(const Score& s) {
  json measures = {{"val_perplexity", std::exp(s.loss)},
                   {"val_token_accuracy", s.accuracy},
                   {"val_bleu", percent_of(s.bleu)},
                   {"val_bleu_2", s.bleu_2},
                   {"val_exact", s.exact}};
  if (s.bleu_characters) measures["val_bleu_characters"] = percent_of(*s.bleu_characters);
  return {s.loss, measures};
}

json summary_of(const Score& s) {
  json summary = evaluation_of(s).summary();
  summary["val_unknown_targets"] = s.target.unknown;
  return summary;
}

void print_score(const Score& s, std::size_t pairs) {
  std::cout << fmt::format("{} pairs: BLEU {}  exact {:.2f} %  perplexity {:.3f}\n", pairs, text_of(s.bleu),
                           100 * s.exact, std::exp(s.loss));
  if (s.bleu_characters) std::cout << fmt::format("BLEU of characters: {}\n", text_of(*s.bleu_characters));
  if (s.target.unknown > 0)
    std::cout << fmt::format("{} of {} target tokens are unknown to the model: left out of the perplexity\n",
                             s.target.unknown, s.target.tokens);
}

std::string checked_coverage(const DataConfig& config, const Examples& train, const Examples& validation) {
  const Coverage sources = coverage(train.sources), targets = coverage(train.targets),
                 val_sources = coverage(validation.sources), val_targets = coverage(validation.targets);
  check_coverage(config, sources, "training sources");
  check_coverage(config, targets, "training targets");
  check_coverage(config, val_sources, "validation sources");
  check_coverage(config, val_targets, "validation targets");
  return fmt::format(
      "unknown tokens in source and target: {:.1f} % and {:.1f} % of training, {:.1f} % and {:.1f} % of "
      "validation",
      100 * sources.share(), 100 * targets.share(), 100 * val_sources.share(), 100 * val_targets.share());
}

void choose_best(const examples::CommandLine& line, std::span<const Pair> validation, const Languages& languages,
                 std::string& best) {
  std::vector<Words> references;
  for (const Pair& pair : validation) references.push_back(words_of(languages.tokenizer.prepare(pair.target)));
  const bool has_characters = lack_blanks(references);
  if (best == "bleu_characters" && !has_characters)
    throw UsageError("--best: bleu_characters is for texts without blanks between words");
  if (best == "bleu" && has_characters && !line.given("best")) best = "bleu_characters";
}

}  // namespace translate
