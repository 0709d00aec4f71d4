// Finds, reads and copies the files of tokenizers.
#include "tokenizer_folder.h"

#include "added_in_folder.h"
#include "byte_level_bpe.h"
#include "sentencepiece.h"
#include "sentencepiece_model.h"
#include "token_files.h"
#include "tokenizer_json.h"
#include "tokenizer_json_writer.h"

#include "../../autograd/core/check.h"
#include "../../autograd/core/printable.h"
#include "../io/atomic_file.h"
#include "../io/file.h"
#include "../io/json.h"
#include "../io/text_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <variant>

namespace seppo {
inline namespace SEPPO_ABI {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr const char* kTokenizerJson = "tokenizer.json";
constexpr const char* kVocabulary = "vocab.json";
constexpr const char* kMerges = "merges.txt";
constexpr const char* kTokenizerConfig = "tokenizer_config.json";
constexpr const char* kAdded = "added_tokens.json";
constexpr const char* kSpecialTokens = "special_tokens_map.json";
constexpr const char* kSentencePiece = "tokenizer.model";

// What may lie beside a tokenizer and belongs to it.
constexpr const char* kBeside[] = {kTokenizerConfig, kSpecialTokens,       "generation_config.json",
                                   kAdded,           "chat_template.json", "chat_template.jinja",
                                   kSentencePiece};

// What files call the special tokens that they name nowhere else.
constexpr const char* kUsualBos[] = {"<s>", "<|begin_of_text|>", "<bos>"};
constexpr const char* kUsualEos[] = {"<|endoftext|>", "</s>", "<|end_of_text|>", "<eos>"};

// llama2.c's tok*.bin
bool is_llama2c(const std::string& name) { return name.starts_with("tok") && name.ends_with(".bin"); }

// ---- finding the files ---------------------------------------------------------------------------

using Files = std::vector<fs::path>;  // of one tokenizer

// The files of each tokenizer in the folder: tokenizer.json first, then vocab.json with merges.txt, then tok*.bin; or
// else tokenizer.model, which is another form of tokenizer.json.
std::vector<Files> tokenizers_in(const fs::path& folder) {
  std::vector<Files> found;
  if (fs::exists(folder / kTokenizerJson)) found.push_back({folder / kTokenizerJson});
  if (fs::exists(folder / kVocabulary) && fs::exists(folder / kMerges))
    found.push_back({folder / kVocabulary, folder / kMerges});
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (is_llama2c(entry.path().filename().string())) found.push_back({entry.path()});
  if (found.empty() && fs::exists(folder / kSentencePiece)) found.push_back({folder / kSentencePiece});
  return found;
}

// Are these the two formats in which Hugging Face writes one tokenizer, tokenizer.json and vocab.json with merges.txt?
bool are_two_formats(const std::vector<Files>& found) {
  return found.size() == 2 && found[0].size() == 1 && found[1].size() == 2;
}

// The tokenizer in the folder, in one or two formats, of which the first one suffices.
std::vector<Files> tokenizer_files(const fs::path& folder) {
  std::vector<Files> found = tokenizers_in(folder);
  check<ArgumentError>(!found.empty(), "'", printable_path(folder),
                       "' has no tokenizer: tokenizer.json, vocab.json with merges.txt, tokenizer.model or tok*.bin");
  const bool is_one = found.size() == 1 || are_two_formats(found);
  if (!is_one) {
    const std::string first = found[0][0].filename().string();
    const std::string second = found[1][0].filename().string();
    fail<ArgumentError>("'", printable_path(folder), "' has several tokenizers, ", first, " and ", second);
  }
  return found;
}

// ---- special tokens ------------------------------------------------------------------------------

// "bos_token": "<s>", or {"content": "<s>", ...}; the first object that has the key decides, if it names a
// token, and then the tokenizer.
std::optional<int> special_token(const Tokenizer& t, std::span<const json> objects, const char* key,
                                 std::optional<int> own, std::span<const char* const> usual) {
  for (const json& object : objects) {
    if (!object.contains(key)) continue;
    const auto name = token_text(object[key]);
    if (!name) return {};
    const auto found = t.id(*name);
    return found ? found : own;
  }
  if (own) return own;
  for (const char* name : usual)
    if (const auto found = t.id(name)) return found;
  return {};
}

json name_of(const Tokenizer& t, std::optional<int> token) {
  if (!token) return nullptr;
  for (const auto& [name, id] : t.marks)
    if (id == *token) return name;
  return t.pieces[static_cast<std::size_t>(*token)];
}

// BOS and EOS are special, though they may be added as other tokens.
void make_special(Tokenizer& t) {
  for (const std::optional<int> id : {t.bos, t.eos})
    for (AddedTokens* const added : {&t.added, &t.added_normalized}) {
      const auto text = added->make_special(id.value_or(Bpe::kNone));
      if (!text) continue;
      t.marks[*text] = *id;
      t.pieces[static_cast<std::size_t>(*id)].clear();
    }
}

// BOS and EOS of vocab.json, where they are not marked as special, can be asked for in texts.
void add_special(Tokenizer& t) {
  for (const std::optional<int> id : {t.bos, t.eos}) {
    if (!id) continue;
    const auto text = name_of(t, id).get<std::string>();
    if (!t.marks.contains(text)) t.added.add({.text = text, .id = *id});
  }
}

// Does the tokenizer put a space, or a mark for one, before a text?
bool adds_space(const Tokenizer& t) {
  const auto is_prefixing = [](const PreTokenizer& step) {
    const ByteLevel* const level = std::get_if<ByteLevel>(&step);
    const Metaspace* const marks = std::get_if<Metaspace>(&step);
    return (level && level->adds_space) || (marks && marks->prefix != Metaspace::Prefix::never);
  };
  const auto is_prepend = [](const Normalizer& normalizer) { return std::holds_alternative<Prepend>(normalizer); };
  return std::ranges::any_of(t.steps, is_prefixing) || std::ranges::any_of(t.normalizers, is_prepend);
}

// What tokenizer_config.json says about the tokens of a text; a tokenizer.json says itself which marks it has.
void apply_config(Tokenizer& t, const fs::path& folder, const json& config, bool is_json) {
  const std::string name = printable_path(folder / kTokenizerConfig);
  if (config.value("add_prefix_space", json()) == true && !adds_space(t)) {
    check<FormatError>(!is_json, name, ": 'add_prefix_space' is not what tokenizer.json says");
    t.steps.insert(t.steps.begin(), ByteLevel{.adds_space = true});
  }
  if (is_json) return;
  if (config.value("add_eos_token", json()) == true) {
    check<FormatError>(t.eos.has_value(), name, ": 'add_eos_token': 'eos_token' is no token");
    t.behind = {*t.eos};
  }
  const bool usually_has_bos = t.adds_bos() && t.bos;
  t.before.clear();
  if (config.value("add_bos_token", json(usually_has_bos)) != true) return;
  check<FormatError>(t.bos.has_value(), name, ": 'add_bos_token': 'bos_token' is no token");
  t.before = {*t.bos};
}

// ---- writing -------------------------------------------------------------------------------------

void copy_tokenizer(const fs::path& from, const fs::path& folder) {
  for (const Files& files : tokenizer_files(from))
    for (const fs::path& file : files) copy_atomically(file, folder / file.filename());
  for (const char* name : kBeside)
    if (fs::exists(from / name)) copy_atomically(from / name, folder / name);
}

void write_byte_tokenizer(const fs::path& folder) {
  write_text(folder / kVocabulary, byte_vocabulary().dump());
  write_text(folder / kMerges, "#version: 0.2\n");
}

// The pairs of a merges.txt.
json merges_of(const fs::path& file) {
  json pairs = json::array();
  std::istringstream text(read_text(file));
  for (std::string line; std::getline(text, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty() && !line.starts_with("#version")) pairs.push_back(line);
  }
  return pairs;
}

std::optional<NamedToken> named_token(const Tokenizer& t, std::optional<int> token) {
  if (!token) return {};
  return NamedToken{name_of(t, token).get<std::string>(), static_cast<std::size_t>(*token)};
}

std::optional<NamedToken> named_token(const Tokenizer& t, const std::vector<int>& tokens) {
  if (tokens.empty()) return {};
  return named_token(t, std::optional(tokens[0]));
}

// A tokenizer.json for vocab.json and merges.txt.
json byte_level_document(const fs::path& folder, const json& added, bool adds_space) {
  const json vocabulary = parse_json(read_text(folder / kVocabulary), printable_path(folder / kVocabulary));
  return whole_json({{"model", bpe_json(vocabulary, merges_of(folder / kMerges))},
                     {"added_tokens", added},
                     {"pre_tokenizer", byte_level_json(true, adds_space)},
                     {"post_processor", byte_level_json(true)},
                     {"decoder", byte_level_json(true)}});
}

void write_if_missing(const fs::path& file, const json& content) {
  if (!fs::exists(file)) write_text(file, content.dump(2) + "\n");
}

json without_nulls(const json& object) {
  json kept = json::object();
  for (const auto& [key, value] : object.items())
    if (!value.is_null()) kept[key] = value;
  return kept;
}

// BOS and EOS of a tokenizer, as entries of added_tokens.
json marks_of(const Tokenizer& t) {
  json added = json::array();
  for (const std::optional<int> token : std::set{t.bos, t.eos})
    if (const auto named = named_token(t, token)) added.push_back(added_token_json(named->id, named->text, true));
  return added;
}

SentencePieceOptions sentencepiece_options(const fs::path& folder) {
  const json config = object_in(folder / kTokenizerConfig);
  const json maker = config.value("tokenizer_class", json());
  const bool is_llama = maker == "LlamaTokenizer" || maker == "LlamaTokenizerFast";
  return {.added = added_in_folder(folder),
          .adds_space = config.value("add_prefix_space", json()) != false,
          .adds_once = config.value("legacy", json(!is_llama)) == false};
}

Tokenizer read_two_files(const fs::path& folder) {
  const json added = added_in_folder(folder);
  if (added.empty()) return read_byte_level_bpe(folder / kVocabulary, folder / kMerges);
  return read_tokenizer_json(byte_level_document(folder, added, /*adds_space=*/false),
                             printable_path(folder / kVocabulary));
}

// A tokenizer in another format, vocab.json with merges.txt or tokenizer.model, as a tokenizer.json.
json as_document(const fs::path& folder, const Tokenizer& t) {
  json all;
  if (tokenizer_files(folder)[0].size() == 2) {
    const json added = joined_added_tokens(marks_of(t), added_in_folder(folder));
    all = byte_level_document(folder, added, adds_space(t));
  } else {
    all = sentencepiece_model_json(folder / kSentencePiece, sentencepiece_options(folder));
  }
  const auto before = named_token(t, t.before);
  const auto behind = named_token(t, t.behind);
  if (before || behind) all["post_processor"] = marks_json(before, behind);
  return all;
}

// LLaMA's BPE of SentencePiece begins a text with BOS, unless tokenizer_config.json says otherwise.
Tokenizer read_files(const Files& files) {
  const fs::path folder = files[0].parent_path();
  if (files.size() == 2) return read_two_files(folder);
  if (files[0].filename() == kTokenizerJson) return read_tokenizer_json(files[0]);
  Tokenizer t = read_sentencepiece_model(files[0], sentencepiece_options(folder));
  if (t.bos && std::holds_alternative<Bpe>(t.model)) t.before = {*t.bos};
  return t;
}

}  // namespace

json tokenizer_folder_json(const fs::path& folder) {
  const fs::path file = tokenizer_files(folder)[0][0];
  const std::string name = printable_path(file);
  if (file.filename() == kTokenizerJson) return parse_json(read_text(file), name);
  check<FormatError>(!is_llama2c(file.filename().string()), name, ": is no tokenizer.json");
  return as_document(folder, read_tokenizer(folder));
}

Tokenizer read_tokenizer(const fs::path& folder) {
  const Files files = tokenizer_files(folder)[0];
  if (is_llama2c(files[0].filename().string())) return read_sentencepiece(files[0]);
  const bool is_of_two_files = files.size() == 2;
  Tokenizer t = read_files(files);
  const json config = object_in(folder / kTokenizerConfig);
  const json objects[] = {config, object_in(folder / kSpecialTokens)};
  const bool is_json = files[0].filename() == kTokenizerJson;  // whose own mark comes first
  if (!is_json || !t.bos) t.bos = special_token(t, objects, "bos_token", t.bos, kUsualBos);
  if (!is_json || !t.eos) t.eos = special_token(t, objects, "eos_token", t.eos, kUsualEos);
  make_special(t);
  if (is_of_two_files) add_special(t);
  apply_config(t, folder, config, is_json);
  return t;
}

void write_tokenizer(const fs::path& folder, const fs::path& from, int max_length) {
  if (from.empty()) {
    write_byte_tokenizer(folder);
  } else {
    copy_tokenizer(from, folder);
  }
  const fs::path file = tokenizer_files(folder)[0][0];
  if (is_llama2c(file.filename().string())) return;  // which Hugging Face's loaders do not read
  const Tokenizer t = from.empty() ? byte_tokenizer() : read_tokenizer(folder);
  // Of many types of models, Hugging Face's loaders take no other.
  if (file.filename() != kTokenizerJson) write_text(folder / kTokenizerJson, as_document(folder, t).dump() + "\n");
  const json tokens{{"bos_token", name_of(t, t.bos)}, {"eos_token", name_of(t, t.eos)}, {"unk_token", nullptr}};
  json all{{"tokenizer_class", "PreTrainedTokenizerFast"},
           {"model_max_length", max_length},
           {"clean_up_tokenization_spaces", false}};
  all.update(tokens);
  write_if_missing(folder / kTokenizerConfig, all);
  write_if_missing(folder / kSpecialTokens, without_nulls(tokens));
}

bool is_tokenizer_file(const std::string& name) {
  if (name == kTokenizerJson || name == kVocabulary || name == kMerges || is_llama2c(name)) return true;
  return std::ranges::find(kBeside, name) != std::end(kBeside);
}

}  // namespace SEPPO_ABI
}  // namespace seppo
