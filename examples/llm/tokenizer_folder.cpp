// Finds, reads and copies the files of tokenizers.
#include "llm/tokenizer_folder.h"

#include "app/command_line.h"
#include "app/paths.h"
#include "app/text_file.h"
#include "llm/tokenizer_json.h"

#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/printable.h>
#include <seppo/nn/io/atomic_file.h>
#include <seppo/nn/io/json.h>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>

namespace llm {

namespace fs = std::filesystem;
using examples::UsageError;
using nlohmann::json;
using seppo::check;
using seppo::FormatError;
using seppo::printable_path;

namespace {

constexpr const char* kTokenizerConfig = "tokenizer_config.json";
constexpr const char* kSpecialTokens = "special_tokens_map.json";
constexpr const char* kGeneration = "generation_config.json";
constexpr const char* kBeside[] = {kTokenizerConfig,     kSpecialTokens,        kGeneration,      "added_tokens.json",
                                   "chat_template.json", "chat_template.jinja", "tokenizer.model"};
constexpr const char* kEnd = "<|endoftext|>";

// What files call the special tokens that they name nowhere else.
constexpr const char* kUsualBos[] = {"<s>", "<|begin_of_text|>", "<bos>"};
constexpr const char* kUsualEos[] = {kEnd, "</s>", "<|end_of_text|>", "<eos>"};

// llama2.c's tok*.bin
bool is_llama2c(const std::string& name) { return name.starts_with("tok") && name.ends_with(".bin"); }

// The files of each tokenizer in the folder: tokenizer.json first, then vocab.json with merges.txt, then tok*.bin.
std::vector<std::vector<fs::path>> tokenizers_in(const fs::path& folder) {
  std::vector<std::vector<fs::path>> found;
  if (fs::exists(folder / "tokenizer.json")) found.push_back({folder / "tokenizer.json"});
  if (fs::exists(folder / "vocab.json") && fs::exists(folder / "merges.txt"))
    found.push_back({folder / "vocab.json", folder / "merges.txt"});
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (is_llama2c(entry.path().filename())) found.push_back({entry.path()});
  return found;
}

// The files of the tokenizer, of which the first ones suffice. Hugging Face writes the same one in two formats.
std::vector<std::vector<fs::path>> tokenizer_files(const std::string& option, const fs::path& folder) {
  const auto found = tokenizers_in(folder);
  const std::string name = printable_path(folder);
  if (found.empty())
    throw UsageError(fmt::format("--{}: '{}' has no tokenizer: tokenizer.json, vocab.json with merges.txt, or tok*.bin",
                                 option, name));
  const bool is_one = found.size() == 1 || (found.size() == 2 && found[0].size() == 1 && found[1].size() == 2);
  if (!is_one)
    throw UsageError(fmt::format("--{}: '{}' has several tokenizers, {} and {}", option, name,
                                 found[0][0].filename().string(), found[1][0].filename().string()));
  return found;
}

// A JSON object of a folder; empty if there is no such file.
json object_in(const fs::path& folder, const char* name) {
  const fs::path file = folder / name;
  if (!fs::exists(file)) return json::object();
  const std::string shown = printable_path(file);
  json object = seppo::parse_json(examples::read_text(file), shown);
  check<FormatError>(object.is_object(), shown, ": is no object");
  return object;
}

std::optional<int> token_of(const Tokenizer& t, const std::string& text) {
  if (const auto mark = t.marks.find(text); mark != t.marks.end()) return mark->second;
  if (const auto piece = t.ids.find(text); piece != t.ids.end()) return piece->second;
  return {};
}

// "bos_token": "<s>", or {"content": "<s>", ...}; the first object that has the key decides.
template <std::size_t n>
std::optional<int> special_token(const Tokenizer& t, std::span<const json> objects, const char* key,
                                 const char* const (&usual)[n]) {
  for (const json& object : objects) {
    if (!object.contains(key)) continue;
    json name = object[key];
    if (name.is_object()) name = name.value("content", json());
    return name.is_string() ? token_of(t, name.get<std::string>()) : std::nullopt;
  }
  for (const char* name : usual)
    if (const auto found = token_of(t, name)) return found;
  return {};
}

// What tokenizer_config.json says about the tokens of a text.
void apply_config(Tokenizer& t, const fs::path& folder, const json& config, bool is_of_two_files) {
  const std::string name = printable_path(folder / kTokenizerConfig);
  check<FormatError>(config.value("add_prefix_space", json()) != true, name, ": 'add_prefix_space' is not supported");
  if (!is_of_two_files) return;
  check<FormatError>(config.value("add_eos_token", json()) != true, name, ": 'add_eos_token' is not supported");
  if (config.value("add_bos_token", json()) != true) return;
  check<FormatError>(t.bos.has_value(), name, ": 'add_bos_token': 'bos_token' is no token");
  t.adds_bos = true;
}

json byte_vocabulary() {
  json all;
  for (const std::string& character : gpt2_alphabet()) all[character] = all.size();
  all[kEnd] = all.size();
  return all;
}

json name_of(const Tokenizer& t, std::optional<int> token) {
  if (!token) return nullptr;
  for (const auto& [name, id] : t.marks)
    if (id == *token) return name;
  return t.pieces[static_cast<std::size_t>(*token)];
}

void copy_whole(const fs::path& from, const fs::path& to) {
  seppo::replace_atomically(to, [&](seppo::File& copy) {
    seppo::File file(from, seppo::File::Open::reading);
    std::vector<char> piece(std::size_t{1} << 20);
    while (const std::size_t size = file.read_some(piece.data(), piece.size())) copy.write(piece.data(), size);
  });
}

void write_if_missing(const fs::path& file, const json& content) {
  if (!fs::exists(file)) examples::write_file_atomically(file, content.dump(2) + "\n");
}

}  // namespace

Tokenizer read_tokenizer(const std::string& option, const fs::path& folder) {
  const std::vector<fs::path> files = tokenizer_files(option, folder)[0];
  if (is_llama2c(files[0].filename())) return read_sentencepiece(files[0]);
  const bool is_of_two_files = files.size() == 2;
  Tokenizer t = is_of_two_files ? read_byte_level_bpe(files[0], files[1]) : read_tokenizer_json(files[0]);
  const json config = object_in(folder, kTokenizerConfig);
  const json objects[] = {config, object_in(folder, kSpecialTokens)};
  if (!t.bos) t.bos = special_token(t, objects, "bos_token", kUsualBos);
  t.eos = special_token(t, objects, "eos_token", kUsualEos);
  apply_config(t, folder, config, is_of_two_files);
  return t;
}

Tokenizer byte_tokenizer() {
  const AddedToken end[] = {{kEnd, 256}};
  Tokenizer made = byte_level_bpe(byte_vocabulary(), {}, end, /*all_bytes=*/true, "bytes");
  made.bos = 256;
  made.eos = 256;
  return made;
}

void write_tokenizer(const fs::path& folder, const fs::path& from, const HfConfig& config) {
  if (from.empty()) {
    examples::write_file_atomically(folder / "vocab.json", byte_vocabulary().dump());
    examples::write_file_atomically(folder / "merges.txt", "#version: 0.2\n");
  } else {
    for (const auto& files : tokenizer_files("tokenizer", from))
      for (const fs::path& file : files) copy_whole(file, folder / file.filename());
    for (const char* name : kBeside)
      if (fs::exists(from / name)) copy_whole(from / name, folder / name);
  }
  write_if_missing(folder / kGeneration, text_tokens(config));
  const bool is_json = fs::exists(folder / "tokenizer.json");
  if (!is_json && !fs::exists(folder / "vocab.json")) return;  // llama2.c's, which Hugging Face does not read
  const Tokenizer t = from.empty() ? byte_tokenizer() : read_tokenizer("tokenizer", folder);
  const json tokens{{"bos_token", name_of(t, t.bos)}, {"eos_token", name_of(t, t.eos)}, {"unk_token", nullptr}};
  json all{{"tokenizer_class", is_json ? "PreTrainedTokenizerFast" : "GPT2Tokenizer"},
           {"model_max_length", config.model.max_length},
           {"clean_up_tokenization_spaces", false},
           {"add_prefix_space", false}};
  all.update(tokens);
  write_if_missing(folder / kTokenizerConfig, all);
  json named = tokens;
  for (auto token = named.begin(); token != named.end();) token = token->is_null() ? named.erase(token) : ++token;
  write_if_missing(folder / kSpecialTokens, named);
}

bool is_tokenizer_file(const std::string& name) {
  return name == "tokenizer.json" || name == "vocab.json" || name == "merges.txt" || is_llama2c(name) ||
         std::ranges::find(kBeside, name) != std::end(kBeside);
}

}  // namespace llm
