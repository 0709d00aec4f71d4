// Language models in GGUF files: the same model and tokenizer as in Hugging Face's format.
// needs: libraries: seppo::text
#define BOOST_TEST_MODULE gguf_model
#include <seppo/autograd/core/check.h>
#include <seppo/models/decoding/generate.h>
#include <seppo/models/gguf/gguf_model.h>
#include <seppo/nn/text/byte_level_bpe.h>
#include <seppo/nn/text/gguf_tokenizer.h>
#include <seppo/nn/text/tokenizer_folder.h>

#include "support/gguf.h"
#include "support/program.h"

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

using namespace seppo;
using nlohmann::json;
using test::GgufWriter;

namespace {

constexpr int kTokens = 260;  // 256 bytes, two merges, two marks

// GPT-2's character for each byte.
std::vector<std::string> alphabet() {
  const json vocabulary = byte_vocabulary();
  std::vector<std::string> characters(256);
  for (const auto& [character, id] : vocabulary.items())
    if (id < 256) characters[id] = character;
  return characters;
}

HfConfig small(bool tie_output, Architecture architecture = Architecture::llama) {
  HfConfig config{.architecture = architecture};
  set_architecture(architecture, config.model);
  config.model.vocabulary = kTokens;
  config.model.layer.d_model = 16;
  config.model.layer.n_heads = 4;
  config.model.layer.n_kv_heads = 2;
  config.model.layer.d_ff = 24;
  config.model.layer.dropout = 0;
  config.model.layer.attention_dropout = 0;
  config.model.layer.eps = 1e-5;
  config.model.n_layers = 2;
  config.model.max_length = 32;
  config.model.rope_theta = 5000;
  config.model.tie_output = tie_output;
  if (architecture == Architecture::qwen3) config.model.decoder.head_width = 6;
  return config;
}

std::vector<float> weight(const Parameters& parameters, const std::string& name) {
  const auto values = parameters.find(name)->tensor.values();
  return {values.begin(), values.end()};
}

std::vector<float> rows(const std::vector<float>& all, int first, int count, int columns) {
  const auto at = all.begin() + first * columns;
  return {at, at + count * columns};
}

// As llama.cpp's conversion reorders queries and keys: [heads, 2, width / 2] -> [heads, width / 2, 2].
std::vector<float> paired(const std::vector<float>& all, int heads, int columns) {
  const int width = static_cast<int>(all.size()) / columns / heads;
  std::vector<float> out;
  for (int head = 0; head < heads; ++head)
    for (int i = 0; i < width / 2; ++i)
      for (int j = 0; j < 2; ++j) {
        const std::vector<float> row = rows(all, head * width + j * width / 2 + i, 1, columns);
        out.insert(out.end(), row.begin(), row.end());
      }
  return out;
}

// The projections of queries, keys and values of a layer, and what belongs to them.
void add_attention(GgufWriter& writer, const Parameters& p, const HfConfig& config, int layer) {
  const std::string theirs = "blk." + std::to_string(layer) + ".";
  const std::string ours = "layers." + std::to_string(layer) + ".self_attn.";
  const int q = config.model.decoder.head_width > 0 ? 24 : 16;  // rows: four heads, and two of keys
  const std::vector<float> qkv = weight(p, ours + "in_proj.weight");
  const auto in_order = [&](const std::vector<float>& all, int heads) {
    return config.architecture == Architecture::llama ? paired(all, heads, 16) : all;
  };
  const auto size = [](int n) { return static_cast<std::uint64_t>(n); };
  writer.floats(theirs + "attn_q.weight", {16, size(q)}, in_order(rows(qkv, 0, q, 16), 4));
  writer.floats(theirs + "attn_k.weight", {16, size(q / 2)}, in_order(rows(qkv, q, q / 2, 16), 2));
  writer.floats(theirs + "attn_v.weight", {16, size(q / 2)}, rows(qkv, q + q / 2, q / 2, 16));
  writer.floats(theirs + "attn_output.weight", {size(q), 16}, weight(p, ours + "out_proj.weight"));
  if (config.architecture == Architecture::qwen2) {
    const std::vector<float> bias = weight(p, ours + "in_proj.bias");
    writer.floats(theirs + "attn_q.bias", {16}, rows(bias, 0, 16, 1));
    writer.floats(theirs + "attn_k.bias", {8}, rows(bias, 16, 8, 1));
    writer.floats(theirs + "attn_v.bias", {8}, rows(bias, 24, 8, 1));
  }
  if (config.architecture == Architecture::qwen3) {
    writer.floats(theirs + "attn_q_norm.weight", {6}, weight(p, ours + "q_norm.weight"));
    writer.floats(theirs + "attn_k_norm.weight", {6}, weight(p, ours + "k_norm.weight"));
  }
}

void add_weights(GgufWriter& writer, const Parameters& p, const HfConfig& config) {
  writer.floats("token_embd.weight", {16, kTokens}, weight(p, "embedding.weight"));
  writer.floats("output_norm.weight", {16}, weight(p, "layers.norm.weight"));
  if (!config.model.tie_output) writer.floats("output.weight", {16, kTokens}, weight(p, "output.weight"));
  for (const int layer : {0, 1}) {
    const std::string theirs = "blk." + std::to_string(layer) + ".";
    const std::string ours = "layers." + std::to_string(layer) + ".";
    writer.floats(theirs + "attn_norm.weight", {16}, weight(p, ours + "norm1.weight"));
    writer.floats(theirs + "ffn_norm.weight", {16}, weight(p, ours + "norm2.weight"));
    add_attention(writer, p, config, layer);
    writer.floats(theirs + "ffn_gate.weight", {16, 24}, weight(p, ours + "ffn.gate.weight"));
    writer.floats(theirs + "ffn_up.weight", {16, 24}, weight(p, ours + "ffn.up.weight"));
    writer.floats(theirs + "ffn_down.weight", {24, 16}, weight(p, ours + "ffn.down.weight"));
  }
}

void add_metadata(GgufWriter& writer, const HfConfig& config) {
  const std::string kind = enum_names(config.architecture)[static_cast<std::size_t>(config.architecture)];
  writer.add("general.architecture", kind);
  writer.add(kind + ".embedding_length", 16u);
  writer.add(kind + ".feed_forward_length", 24u);
  writer.add(kind + ".block_count", 2u);
  writer.add(kind + ".context_length", 32u);
  writer.add(kind + ".attention.head_count", 4u);
  writer.add(kind + ".attention.head_count_kv", 2u);
  writer.add(kind + ".attention.layer_norm_rms_epsilon", 1e-5F);
  writer.add(kind + ".rope.freq_base", 5000.0F);
  const int width = config.model.decoder.head_width;
  if (width > 0) writer.add(kind + ".attention.key_length", static_cast<std::uint32_t>(width));
  writer.add(kind + ".rope.dimension_count", width > 0 ? static_cast<std::uint32_t>(width) : 4u);
}

void add_tokenizer(GgufWriter& writer, const std::string& pre = "gpt-2") {
  std::vector<std::string> tokens = alphabet();
  std::vector<std::int32_t> types(258, 1);
  for (const char* token : {"ab", "abc", "<start>", "<end>"}) tokens.push_back(token);
  types.insert(types.end(), 2, 3);
  writer.add("tokenizer.ggml.model", std::string("gpt2"));
  writer.add("tokenizer.ggml.pre", pre);
  writer.add("tokenizer.ggml.tokens", tokens);
  writer.add("tokenizer.ggml.token_type", types);
  writer.add("tokenizer.ggml.merges", std::vector<std::string>{"a b", "ab c"});
  writer.add("tokenizer.ggml.bos_token_id", 258u);
  writer.add("tokenizer.ggml.eos_token_id", 259u);
  writer.add("tokenizer.chat_template", std::string("{{ messages }}"));
}

void refused(const GgufWriter& writer, const std::string& part) {
  const test::Folder folder("gguf");
  folder.write("f.gguf", writer.file());
  const auto says = [&](const FormatError& e) {
    BOOST_TEST_MESSAGE(e.what());
    return std::string(e.what()).find("f.gguf: " + part) != std::string::npos;
  };
  BOOST_CHECK_EXCEPTION(load_gguf(folder.path / "f.gguf"), FormatError, says);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_model_is_the_one_that_was_converted) {
  for (const Architecture architecture : {Architecture::llama, Architecture::qwen2, Architecture::qwen3})
    for (const bool tie_output : {true, false}) {
      const test::Folder folder("gguf");
      const HfConfig config = small(tie_output, architecture);
      Parameters parameters(7);
      const LanguageModel model(parameters.root(), config.model);
      std::mt19937 random(1);  // zeros and ones may change places
      for (const Parameters::Entry& entry : parameters.entries())
        for (std::size_t k = 0; k < entry.size(); ++k)
          entry.tensor.data()[k] += static_cast<real>(random() % 1000) / 1000;
      GgufWriter writer;
      add_metadata(writer, config);
      add_tokenizer(writer);
      add_weights(writer, parameters, config);
      folder.write("f.gguf", writer.file());
      BOOST_CHECK(is_gguf(folder.path / "f.gguf") && !is_gguf(folder.path));
      const Pretrained read = load_gguf(folder.path / "f.gguf");
      BOOST_CHECK(std::ranges::equal(read.parameters->values(), parameters.values()));
      BOOST_CHECK(read.config.bos == 258 && read.config.stops == std::vector<int>{259});
      BOOST_CHECK(to_json_object(read.config.model) == to_json_object(config.model));
      // and back, in Hugging Face's format
      save_pretrained(folder.path, read.config, *read.parameters);
      BOOST_CHECK(std::ranges::equal(load_pretrained(folder.path).parameters->values(), parameters.values()));
    }
}

BOOST_AUTO_TEST_CASE(a_tokenizer_is_a_tokenizer_json) {
  const test::Folder folder("gguf");
  GgufWriter writer;
  add_tokenizer(writer);
  folder.write("f.gguf", writer.file());
  const GgufFile file(folder.path / "f.gguf");
  const Tokenizer tokenizer = read_gguf_tokenizer(file);
  BOOST_CHECK(tokenizer.size() == kTokens && tokenizer.bos == 258 && tokenizer.eos == 259);
  const std::vector<int> ids{257, 'd', 256, 256};
  BOOST_TEST(tokenizer.encode("abcdabab") == ids, boost::test_tools::per_element());
  BOOST_CHECK_EQUAL(tokenizer.decode(ids), "abcdabab");
  write_gguf_tokenizer(folder.path, file, 32);
  const Tokenizer again = read_tokenizer(folder.path);
  BOOST_CHECK(again.encode("abc <end> 12") == tokenizer.encode("abc <end> 12") && again.eos == 259 && again.bos == 258);
  BOOST_CHECK_EQUAL(test::read(folder.path / "chat_template.jinja"), "{{ messages }}");
}

// SentencePiece's kind: the pair with the best score merges first, bytes stand for what has no token.
BOOST_AUTO_TEST_CASE(pieces_merge_by_score) {
  GgufWriter writer;
  const std::string blank = "\u2581";
  std::vector<std::string> tokens{"<unk>", "<s>", "</s>"};
  std::vector<std::int32_t> types{2, 3, 3};
  for (int byte = 0; byte < 256; ++byte) {
    constexpr const char* kDigits = "0123456789ABCDEF";
    tokens.push_back(std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">");
    types.push_back(6);
  }
  std::vector<float> scores(tokens.size(), 0);
  const auto add = [&](const std::string& token, float score) {
    tokens.push_back(token);
    types.push_back(1);
    scores.push_back(score);
    return static_cast<int>(tokens.size()) - 1;
  };
  const int space = add(blank, -9), a = add("a", -9), b = add("b", -9), c = add("c", -9);
  const int ab = add("ab", -2), bc = add("bc", -1), space_a = add(blank + "a", -3);
  writer.add("tokenizer.ggml.model", std::string("llama"));
  writer.add("tokenizer.ggml.tokens", tokens);
  writer.add("tokenizer.ggml.token_type", types);
  writer.add("tokenizer.ggml.scores", scores);
  writer.add("tokenizer.ggml.bos_token_id", 1u);
  writer.add("tokenizer.ggml.eos_token_id", 2u);
  writer.add("tokenizer.ggml.unknown_token_id", 0u);
  writer.add("tokenizer.ggml.add_eos_token", true);
  const test::Folder folder("gguf");
  folder.write("f.gguf", writer.file());
  const GgufFile file(folder.path / "f.gguf");
  const Tokenizer tokenizer = read_gguf_tokenizer(file);
  const auto check = [&](const std::string& text, std::vector<int> ids) {
    ids.insert(ids.begin(), 1);
    ids.push_back(2);
    BOOST_TEST(tokenizer.encode(text) == ids, boost::test_tools::per_element());
    BOOST_CHECK_EQUAL(tokenizer.decode(ids), text);
  };
  check("abc", {space_a, bc});
  check("b a", {space, b, space_a});
  check("ab", {space, ab});
  check("cab", {space, c, ab});
  check("aa", {space_a, a});
  check("z", {space, 3 + 'z'});
  BOOST_CHECK((gguf_special_tokens(file) == std::map<std::string, std::string>{
                                                {"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}}));
  BOOST_CHECK(!gguf_chat_template(file));
}

GgufWriter of_pieces(const std::vector<std::string>& pieces) {
  GgufWriter writer;
  writer.add("tokenizer.ggml.model", std::string("llama"));
  writer.add("tokenizer.ggml.tokens", pieces);
  writer.add("tokenizer.ggml.scores", std::vector<float>(pieces.size()));
  return writer;
}

void tokenizer_refused(const GgufWriter& writer, const std::string& part) {
  const test::Folder folder("gguf");
  folder.write("f.gguf", writer.file());
  BOOST_CHECK_EXCEPTION(read_gguf_tokenizer(GgufFile(folder.path / "f.gguf")), FormatError, [&](const FormatError& e) {
    return std::string(e.what()).find("f.gguf: tokenizer.ggml." + part) != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(long_pieces_are_refused) {
  tokenizer_refused(of_pieces({"a", std::string(257, 'a')}), "tokens: token 1 has 257 bytes, more than 256");
  std::vector<std::string> all;
  for (char letter = 'A'; letter < 'A' + 33; ++letter)
    for (std::size_t length = 1; length <= 256; ++length) all.emplace_back(length, letter);
  tokenizer_refused(of_pieces(all), "tokens: more than 1048576 pairs of tokens are tokens");
}

BOOST_AUTO_TEST_CASE(what_is_not_llama_is_refused) {
  Parameters parameters(7);
  const HfConfig config = small(true);
  const LanguageModel model(parameters.root(), config.model);
  const auto changed = [&](const std::function<void(GgufWriter&)>& change) {
    GgufWriter writer;
    add_metadata(writer, config);
    add_weights(writer, parameters, config);
    change(writer);
    return writer;
  };
  GgufWriter other;
  other.add("general.architecture", std::string("mamba"));
  refused(other, "general.architecture: \"mamba\" is not supported");
  GgufWriter none;
  none.add("general.architecture", std::string("llama"));
  refused(none, "has no matrix token_embd.weight");
  refused(changed([](GgufWriter& w) { w.add("llama.expert_count", 8u); }), "llama.expert_count: 8 is not supported");
  refused(changed([](GgufWriter& w) { w.add("llama.rope.scaling.type", std::string("yarn")); }),
          "'llama.rope.scaling.type': \"yarn\" is not supported");
  refused(changed([](GgufWriter& w) { w.add("llama.attention.value_length", 8u); }),
          "'llama.attention.value_length': 8");
  GgufWriter without;
  without.add("general.architecture", std::string("llama"));
  for (const char* key : {"embedding_length", "feed_forward_length", "block_count", "context_length"})
    without.add("llama." + std::string(key), 2u);
  without.add("llama.attention.head_count", 1u);
  without.floats("token_embd.weight", {2, 2}, {1, 2, 3, 4});
  refused(without, "'llama.attention.layer_norm_rms_epsilon' is missing");
  refused(changed([](GgufWriter& w) { w.add("tokenizer.ggml.eos_token_id", 260u); }),
          "'tokenizer.ggml.eos_token_id': 260 is no token");
  refused(changed([](GgufWriter& w) {
            w.floats("rope_freqs.weight", {2}, {1, 8});
          }),
          "the model has no tensor rope_freqs.weight");
  GgufWriter partial;
  add_metadata(partial, config);
  partial.floats("token_embd.weight", {16, kTokens}, weight(parameters, "embedding.weight"));
  refused(partial, "has no tensor blk.0.");

  GgufWriter tokenizer;
  add_tokenizer(tokenizer, "chameleon");
  tokenizer_refused(tokenizer, "pre: chameleon is not supported");
  GgufWriter flag = of_pieces({"a", "b"});
  flag.add("tokenizer.ggml.bos_token_id", 1u);
  flag.add("tokenizer.ggml.add_bos_token", 0u);
  tokenizer_refused(flag, "add_bos_token: 0 is neither true nor false");
}
