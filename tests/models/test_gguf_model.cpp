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

#include <functional>
#include <string>
#include <vector>

using namespace seppo;
using test::GgufWriter;

namespace {

constexpr int kTokens = 260;  // 256 bytes, two merges, two marks

HfConfig small(bool tie_output) {
  HfConfig config;
  set_architecture(Architecture::llama, config.model);
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

void add_weights(GgufWriter& writer, const Parameters& p, bool tie_output) {
  writer.floats("token_embd.weight", {16, kTokens}, weight(p, "embedding.weight"));
  writer.floats("output_norm.weight", {16}, weight(p, "layers.norm.weight"));
  if (!tie_output) writer.floats("output.weight", {16, kTokens}, weight(p, "output.weight"));
  for (const std::string n : {"0", "1"}) {
    const std::string theirs = "blk." + n + ".", ours = "layers." + n + ".";
    const std::vector<float> qkv = weight(p, ours + "self_attn.in_proj.weight");
    writer.floats(theirs + "attn_norm.weight", {16}, weight(p, ours + "norm1.weight"));
    writer.floats(theirs + "ffn_norm.weight", {16}, weight(p, ours + "norm2.weight"));
    writer.floats(theirs + "attn_q.weight", {16, 16}, paired(rows(qkv, 0, 16, 16), 4, 16));
    writer.floats(theirs + "attn_k.weight", {16, 8}, paired(rows(qkv, 16, 8, 16), 2, 16));
    writer.floats(theirs + "attn_v.weight", {16, 8}, rows(qkv, 24, 8, 16));
    writer.floats(theirs + "attn_output.weight", {16, 16}, weight(p, ours + "self_attn.out_proj.weight"));
    writer.floats(theirs + "ffn_gate.weight", {16, 24}, weight(p, ours + "ffn.gate.weight"));
    writer.floats(theirs + "ffn_up.weight", {16, 24}, weight(p, ours + "ffn.up.weight"));
    writer.floats(theirs + "ffn_down.weight", {24, 16}, weight(p, ours + "ffn.down.weight"));
  }
}

void add_metadata(GgufWriter& writer) {
  writer.add("general.architecture", std::string("llama"));
  writer.add("llama.embedding_length", 16u);
  writer.add("llama.feed_forward_length", 24u);
  writer.add("llama.block_count", 2u);
  writer.add("llama.context_length", 32u);
  writer.add("llama.attention.head_count", 4u);
  writer.add("llama.attention.head_count_kv", 2u);
  writer.add("llama.attention.layer_norm_rms_epsilon", 1e-5F);
  writer.add("llama.rope.freq_base", 5000.0F);
  writer.add("llama.rope.dimension_count", 4u);
}

void add_tokenizer(GgufWriter& writer, const std::string& pre = "gpt-2") {
  std::vector<std::string> tokens = gpt2_alphabet();
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
  for (const bool tie_output : {true, false}) {
    const test::Folder folder("gguf");
    const HfConfig config = small(tie_output);
    Parameters parameters(7);
    const LanguageModel model(parameters.root(), config.model);
    GgufWriter writer;
    add_metadata(writer);
    add_tokenizer(writer);
    add_weights(writer, parameters, tie_output);
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

BOOST_AUTO_TEST_CASE(what_is_not_llama_is_refused) {
  Parameters parameters(7);
  const LanguageModel model(parameters.root(), small(true).model);
  const auto changed = [&](const std::function<void(GgufWriter&)>& change) {
    GgufWriter writer;
    add_metadata(writer);
    add_weights(writer, parameters, true);
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
  refused(changed([](GgufWriter& w) { w.add("llama.attention.key_length", 8u); }), "'llama.attention.key_length': 8");
  refused(changed([](GgufWriter& w) { w.add("tokenizer.ggml.eos_token_id", 260u); }),
          "'tokenizer.ggml.eos_token_id': 260 is no token");
  refused(changed([](GgufWriter& w) {
            w.floats("rope_freqs.weight", {2}, {1, 8});
          }),
          "the model has no tensor rope_freqs.weight");
  GgufWriter partial;
  add_metadata(partial);
  partial.floats("token_embd.weight", {16, kTokens}, weight(parameters, "embedding.weight"));
  refused(partial, "has no tensor blk.0.");

  const test::Folder folder("gguf");
  GgufWriter tokenizer;
  add_tokenizer(tokenizer, "chameleon");
  folder.write("f.gguf", tokenizer.file());
  BOOST_CHECK_EXCEPTION(read_gguf_tokenizer(GgufFile(folder.path / "f.gguf")), FormatError, [](const FormatError& e) {
    return std::string(e.what()).find("tokenizer.ggml.pre: chameleon is not supported") != std::string::npos;
  });
}
