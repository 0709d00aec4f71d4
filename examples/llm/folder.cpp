// Opens model folders: finds the files, whose contents are parsed elsewhere.
#include "llm/folder.h"

#include "app/command_line.h"
#include "app/text_file.h"
#include "llm/config_keys.h"
#include "llm/weight_files.h"

#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/printable.h>

#include <fmt/format.h>

#include <algorithm>

namespace llm {

namespace fs = std::filesystem;
using examples::UsageError;
using seppo::check;
using seppo::FormatError;
using seppo::printable_path;

namespace {

// The tokens that end a text, which Hugging Face's loaders take from here.
void read_generation_config(HfConfig& config, const fs::path& file) {
  if (!fs::exists(file)) return;
  const std::string name = printable_path(file);
  const ConfigKeys keys(name, parse_python_json(examples::read_text(file), name));
  if (keys.has("eos_token_id")) config.stops = keys.tokens("eos_token_id", config.model.vocabulary);
}

// Can a text have the token? Pieces of several bytes result from merges.
bool can_occur(const Tokenizer& t, int token) {
  const std::string& piece = t.pieces[static_cast<std::size_t>(token)];
  const auto found = t.ids.find(piece);
  const bool is_piece = found != t.ids.end() && found->second == token;
  const bool is_made = std::ranges::any_of(t.merges, [&](const auto& merge) { return merge.second.second == token; });
  if (t.adds_bos && token == t.bos) return true;
  return is_piece ? is_made || piece.size() == 1 || t.takes_words || t.bytes : !piece.empty();
}

// A tokenizer may have tokens beyond the model's if no text has them.
void fit_tokenizer(Tokenizer& t, const HfConfig& config, const std::string& name) {
  constexpr int kMostBeyond = 16;  // each takes a look at all merges
  const int size = config.model.vocabulary;
  bool fits = t.size() - size <= kMostBeyond;
  for (int token = size; fits && token < t.size(); ++token) fits = !can_occur(t, token);
  check<FormatError>(fits, name, ": the tokenizer has ", t.size(), " tokens, the model ", size);
  t.pieces.resize(static_cast<std::size_t>(size));
}

// The model, whose weights are to be loaded.
seppo::LanguageModel build(seppo::Parameters& parameters, const HfConfig& config, const std::string& name) {
  const seppo::Parameters::Undrawn from_the_file(parameters);
  try {
    return seppo::LanguageModel(parameters.root(), config.model);
  } catch (const seppo::ArgumentError& e) {
    seppo::fail<FormatError>(name, ": ", e.what());
  }
}

}  // namespace

std::vector<int> encode(const Tokenizer& tokenizer, std::optional<int> model_bos, std::string_view text, Bos bos) {
  std::vector<int> tokens = tokenizer.encode(text);
  if (bos == Bos::never) {
    if (tokenizer.adds_bos) tokens.erase(tokens.begin());
    return tokens;
  }
  const bool is_missing = !tokenizer.adds_bos && (bos == Bos::always || tokens.empty());
  if (!is_missing) return tokens;
  if (!model_bos && bos == Bos::always) throw UsageError("--bos: the model has no token that begins a text");
  if (model_bos) tokens.insert(tokens.begin(), *model_bos);
  return tokens;
}

std::vector<int> Folder::encode(std::string_view text, Bos bos) const {
  return llm::encode(tokenizer, config.bos, text, bos);
}

void check_apart(const std::string& option, const fs::path& out, const fs::path& model) {
  std::error_code error;  // one of them may not be there
  const bool is_same = fs::equivalent(out, model, error) || fs::equivalent(out, model / "hf", error) ||
                       fs::equivalent(out / "hf", model, error);
  if (is_same) throw UsageError(fmt::format("--{}: '{}' has the model that is read", option, printable_path(out)));
}

Folder open_folder(const fs::path& given, std::uint64_t seed) {
  const fs::path path = fs::exists(given / "hf" / "config.json") ? given / "hf" : given;
  const std::string name = printable_path(path);
  if (!fs::exists(path / "config.json")) throw UsageError(fmt::format("--model: there is no '{}/config.json'", name));
  const WeightFiles weights = find_weights(path);
  HfConfig config = read_hf_config(path / "config.json");
  read_generation_config(config, path / "generation_config.json");
  // The original GPT-2 file lacks the prefix that other files have.
  const std::string prefix = weights.has("wte.weight") ? "" : "transformer.";
  const std::string embedding = config.shape == Shape::llama ? "model.embed_tokens.weight" : prefix + "wte.weight";
  if (config.model.tie_output && has_other_output(weights, embedding)) config.model.tie_output = false;
  Tokenizer tokenizer = read_tokenizer("model", path);
  // Values take at least two bytes each, so the size of the files bounds their number.
  auto parameters = std::make_unique<seppo::Parameters>(seed, weights.bytes);
  seppo::LanguageModel model = build(*parameters, config, name);
  fit_tokenizer(tokenizer, config, name);
  load_weights(weights, *parameters, weights_of(config, prefix));
  return {path, std::move(config), std::move(tokenizer), std::move(parameters), std::move(model)};
}

}  // namespace llm
