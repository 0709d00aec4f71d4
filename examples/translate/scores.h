// What the program says about the scores of translations, and checks that they will mean something.
#pragma once

#include "app/command_line.h"
#include "app/run.h"
#include "translate/data.h"
#include "translate/model.h"

#include <nlohmann/json.hpp>

#include <span>
#include <string>

namespace translate {

examples::Evaluation evaluation_of(const Score& score);
// The same, and the number of unknown target tokens.
nlohmann::json summary_of(const Score& score);
// Prints a score; "-" stands for what is not defined.
void print_score(const Score& score, std::size_t pairs);

// The shares of unknown tokens, in words. Throws UsageError, naming --tokens, if one of them is above a half: the model
// would learn to write <unk>.
std::string checked_coverage(const DataConfig& config, const Examples& train, const Examples& validation);

// Sets --best unless it was given: BLEU is the best measure of most texts; of those without blanks, BLEU of characters.
// Throws UsageError for BLEU of characters if the validation texts have blanks.
void choose_best(const examples::CommandLine& line, std::span<const Pair> validation, const Languages& languages,
                 std::string& best);

}  // namespace translate
