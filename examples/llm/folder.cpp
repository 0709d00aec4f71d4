// Opens and writes model folders: finds the files, whose contents are parsed elsewhere.
#include "llm/folder.h"

#include "app/command_line.h"
#include "app/paths.h"
#include "app/text_file.h"
#include "llm/tokenizer_json.h"
#include "llm/weight_files.h"

#include <seppo/autograd/core/check.h>
#include <seppo/nn/data/text.h>

#include <fmt/format.h>

#include <algorithm>

namespace llm {

namespace fs = std::filesystem;
using examples::UsageError;
using nlohmann::json;
using seppo::check;
using seppo::FormatError;
using seppo::printable_path;

namespace {

// llama2.c's tok*.bin
bool is_llama2c(const fs::path& file) {
  return file.extension() == ".bin" && file.filename().string().starts_with("tok");
}

// The files of each tokenizer in the folder: tokenizer.json first, then vocab.json with merges.txt, then tok*.bin.
std::vector<std::vector<fs::path>> tokenizers_in(const fs::path& folder) {
  std::vector<std::vector<fs::path>> found;
  if (fs::exists(folder / "tokenizer.json")) found.push_back({folder / "tokenizer.json"});
  if (fs::exists(folder / "vocab.json") && fs::exists(folder / "merges.txt"))
    found.push_back({folder / "vocab.json", folder / "merges.txt"});
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (is_llama2c(entry.path())) found.push_back({entry.path()});
  // Hugging Face writes the same tokenizer in both formats.
  if (found.size() == 2 && found[0].size() == 1 && found[1].size() == 2) found.pop_back();
  return found;
}

std::vector<fs::path> tokenizer_files(const std::string& option, const fs::path& folder) {
  const auto found = tokenizers_in(folder);
  const std::string name = printable_path(folder);
  if (found.empty())
    throw UsageError(fmt::format("--{}: '{}' has no tokenizer: tokenizer.json, vocab.json with merges.txt, or tok*.bin",
                                 option, name));
  if (found.size() > 1)
    throw UsageError(fmt::format("--{}: '{}' has several tokenizers, {} and {}", option, name,
                                 found[0][0].filename().string(), found[1][0].filename().string()));
  return found[0];
}

// Removes the files of any tokenizer but these.
void remove_other_tokenizers(const fs::path& folder, const std::vector<fs::path>& kept) {
  std::vector<fs::path> others;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    const bool is_part =
        name == "tokenizer.json" || name == "vocab.json" || name == "merges.txt" || is_llama2c(entry.path());
    const auto is_same = [&](const fs::path& file) { return fs::equivalent(file, entry.path()); };
    if (is_part && std::ranges::none_of(kept, is_same)) others.push_back(entry.path());
  }
  for (const fs::path& file : others) fs::remove(file);
}

json byte_vocabulary() {
  json all;
  for (const std::string& character : gpt2_alphabet()) all[character] = all.size();
  all["<|endoftext|>"] = all.size();
  return all;
}

}  // namespace

std::vector<int> Folder::encode(std::string_view text) const {
  std::vector<int> tokens = tokenizer.encode(text);
  if (!tokenizer.bos && config.bos) tokens.insert(tokens.begin(), *config.bos);
  return tokens;
}

Tokenizer read_tokenizer(const std::string& option, const fs::path& folder) {
  const std::vector<fs::path> files = tokenizer_files(option, folder);
  if (files.size() == 2) return read_byte_level_bpe(files[0], files[1]);
  return files[0].extension() == ".json" ? read_tokenizer_json(files[0]) : read_sentencepiece(files[0]);
}

Tokenizer byte_tokenizer() {
  const std::string end[] = {"<|endoftext|>"};
  Tokenizer made = byte_level_bpe(byte_vocabulary(), {}, end, "bytes");
  made.eos = 256;
  return made;
}

Folder open_folder(const fs::path& given, std::uint64_t seed) {
  const fs::path path = fs::exists(given / "hf" / "config.json") ? given / "hf" : given;
  const std::string name = printable_path(path);
  if (!fs::exists(path / "config.json")) throw UsageError(fmt::format("--model: there is no '{}/config.json'", name));
  const WeightFiles weights = find_weights(path);
  HfConfig config = read_hf_config(path / "config.json");
  Tokenizer tokenizer = read_tokenizer("model", path);
  check<FormatError>(tokenizer.size() <= config.model.vocabulary, name, ": the tokenizer has ", tokenizer.size(),
                     " tokens, the model ", config.model.vocabulary);
  tokenizer.pieces.resize(static_cast<std::size_t>(config.model.vocabulary));
  if (config.stops.empty() && tokenizer.eos) config.stops = {*tokenizer.eos};
  // Values take at least two bytes each, so the size of the files bounds their number.
  auto parameters = std::make_unique<seppo::Parameters>(seed, weights.bytes);
  const auto build = [&] {
    try {
      return seppo::LanguageModel(parameters->root(), config.model);
    } catch (const seppo::ArgumentError& e) {
      seppo::fail<FormatError>(name, ": ", e.what());
    }
  };
  seppo::LanguageModel model = build();
  // The original GPT-2 file lacks the prefix that other files have.
  load_weights(weights, *parameters, weights_of(config, weights.has("wte.weight") ? "" : "transformer."));
  return {path, std::move(config), std::move(tokenizer), std::move(parameters), std::move(model)};
}

void write_folder(const fs::path& folder, const HfConfig& config, const seppo::Parameters& parameters,
                  const fs::path& tokenizer) {
  examples::prepare_folder("out", folder);
  fs::remove(folder / "config.json");
  if (tokenizer.empty()) {
    remove_other_tokenizers(folder, {});
    examples::write_file_atomically(folder / "vocab.json", byte_vocabulary().dump());
    examples::write_file_atomically(folder / "merges.txt", "#version: 0.2\n");
  } else {
    const std::vector<fs::path> files = tokenizer_files("tokenizer", tokenizer);
    if (!fs::equivalent(folder, tokenizer)) remove_other_tokenizers(folder, files);
    for (const fs::path& file : files)
      if (!fs::exists(folder / file.filename()) || !fs::equivalent(file, folder / file.filename()))
        fs::copy_file(file, folder / file.filename(), fs::copy_options::overwrite_existing);
  }
  seppo::save_weights(folder / "model.safetensors", parameters, weights_of(config));
  examples::write_file_atomically(folder / "config.json", to_json(config).dump(2) + "\n");
}

}  // namespace llm
