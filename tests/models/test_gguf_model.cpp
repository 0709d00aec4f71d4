// Language models in GGUF files: the same model and tokenizer as in Hugging Face's format.
// needs: libraries: seppo::text
#include <seppo/autograd/core/check.h>
#include <seppo/models/decoding/generate.h>
#include <seppo/models/gguf/gguf_model.h>
#include <seppo/nn/text/byte_level_bpe.h>
#include <seppo/nn/text/gguf_tokenizer.h>
#include <seppo/nn/text/tokenizer_folder.h>

#include "models/gguf_models.h"
#include "support/program.h"

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

using namespace seppo;
using namespace gguf_models;

namespace {

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

BOOST_AUTO_TEST_CASE(words_with_several_names) {
  const auto encoded = [](const std::string& pre) {
    const test::Folder folder("gguf");
    GgufWriter writer;
    add_tokenizer(writer, pre);
    folder.write("f.gguf", writer.file());
    json all = gguf_tokenizer_json(GgufFile(folder.path / "f.gguf"));
    return std::pair{all["pre_tokenizer"], all["post_processor"]};
  };
  for (const auto& [name, usual] : std::map<std::string, std::string>{
           {"phi-2", "gpt-2"}, {"olmo", "gpt-2"}, {"refact", "smollm"}, {"llama3", "llama-bpe"}})
    BOOST_CHECK(encoded(name) == encoded(usual));
  BOOST_CHECK(encoded("smaug-bpe").first == encoded("llama-bpe").first);
  BOOST_CHECK(encoded("smaug-bpe").second != encoded("llama-bpe").second);  // no text begins with a mark
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
  tokenizer_refused(of_pieces({}), "tokens is empty");
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
  refused(changed([](GgufWriter& w) { w.add("llama.expert_count", 8u); }), "'llama.expert_used_count' is missing");
  refused(changed([](GgufWriter& w) { w.add("llama.expert_group_count", 8u); }),
          "llama.expert_group_count: 8 is not supported");
  refused(changed([](GgufWriter& w) { w.add("llama.rope.scaling.type", std::string("longrope")); }),
          "'llama.rope.scaling.type': \"longrope\" is not supported");
  refused(changed([](GgufWriter& w) {
            w.add("llama.rope.scaling.type", std::string("yarn"));
            w.add("llama.rope.scaling.factor", 2.0F);
            w.add("llama.rope.scaling.yarn_attn_factor", 0.5F);
          }),
          "llama.rope.scaling.yarn_attn_factor: 0.5 is not supported");
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
          "tensor rope_freqs.weight is not that of Llama 3.1");
  refused(changed([](GgufWriter& w) {
            w.floats("rope_freqs.weight", {3}, {1, 1, 8});
          }),
          "tensor rope_freqs.weight has 3 numbers, not one for each pair of 4 columns");
  refused(changed([](GgufWriter& w) {
            w.floats("blk.0.attn_sinks.weight", {2}, {1, 8});
          }),
          "the model has no tensor blk.0.attn_sinks.weight");
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

// ---- other architectures: tensors that count on, so that it is seen where each number goes

namespace {

// A file of one layer, whose tensors hold consecutive numbers.
class Counting {
 public:
  Counting(const std::string& kind, const std::string& epsilon) : kind_(kind) {
    writer_.add("general.architecture", kind);
    add("embedding_length", 4);
    add("feed_forward_length", 6);
    add("block_count", 1);
    add("context_length", 8);
    add("attention.head_count", 2);
    add("attention.head_count_kv", 1);
    writer_.add(kind + ".attention." + epsilon, 1e-5F);
    tensor("token_embd.weight", {4, 3}, 0);
    tensor("output_norm.weight", {4}, 0);
    tensor("blk.0.attn_norm.weight", {4}, 10);
    tensor("blk.0.attn_output.weight", {4, 4}, 0);
  }

  Counting& tensor(const std::string& name, const std::vector<std::uint64_t>& sizes, float first) {
    std::size_t count = 1;
    for (const std::uint64_t size : sizes) count *= size;
    std::vector<float> values(count);
    std::iota(values.begin(), values.end(), first);
    writer_.floats(name, sizes, values);
    return *this;
  }
  Counting& add(const std::string& key, std::uint32_t value) {
    writer_.add(kind_ + "." + key, value);
    return *this;
  }

  Pretrained read() const {
    const test::Folder folder("gguf");
    folder.write("f.gguf", writer_.file());
    return load_gguf(folder.path / "f.gguf");
  }

 private:
  std::string kind_;
  GgufWriter writer_;
};

void check_counts(const Pretrained& read, const std::string& name, real first) {
  const Parameters::Entry* const parameter = read.parameters->find(name);
  BOOST_REQUIRE_MESSAGE(parameter, name);
  const auto values = parameter->tensor.values();
  for (std::size_t i = 0; i < values.size(); ++i)
    BOOST_CHECK_MESSAGE(values[i] == first + static_cast<real>(i), name << " " << i << ": " << values[i]);
}

}  // namespace

// Phi-3: the gate and `up` are one tensor, and queries, keys and values are one.
BOOST_AUTO_TEST_CASE(stacked_tensors) {
  Counting file("phi3", "layer_norm_rms_epsilon");
  file.tensor("blk.0.attn_qkv.weight", {4, 8}, 100).tensor("blk.0.ffn_up.weight", {4, 12}, 200);
  file.tensor("blk.0.ffn_norm.weight", {4}, 20).tensor("blk.0.ffn_down.weight", {6, 4}, 300);
  file.tensor("output.weight", {4, 3}, 400).add("attention.sliding_window", 5);
  const Pretrained read = file.read();
  check_counts(read, "layers.0.self_attn.in_proj.weight", 100);
  check_counts(read, "layers.0.ffn.gate.weight", 200);
  check_counts(read, "layers.0.ffn.up.weight", 224);
  check_counts(read, "layers.0.norm2.weight", 20);
  check_counts(read, "output.weight", 400);
  BOOST_CHECK_EQUAL(read.config.model.decoder.attention(0).window, 5);
}

// Gemma's norms are stored with 1 added, and the first of two layers has a window.
BOOST_AUTO_TEST_CASE(norms_of_one_plus_weight) {
  Counting file("gemma2", "layer_norm_rms_epsilon");
  file.tensor("blk.0.attn_q.weight", {4, 4}, 100).tensor("blk.0.attn_k.weight", {4, 2}, 116);
  file.tensor("blk.0.attn_v.weight", {4, 2}, 124).tensor("blk.0.ffn_gate.weight", {4, 6}, 200);
  file.tensor("blk.0.ffn_up.weight", {4, 6}, 300).tensor("blk.0.ffn_down.weight", {6, 4}, 400);
  file.tensor("blk.0.post_attention_norm.weight", {4}, 20).tensor("blk.0.ffn_norm.weight", {4}, 30);
  file.tensor("blk.0.post_ffw_norm.weight", {4}, 40).add("attention.sliding_window", 7);
  const Pretrained read = file.read();
  check_counts(read, "layers.0.self_attn.in_proj.weight", 100);
  check_counts(read, "layers.0.norm1.weight", 9);
  check_counts(read, "layers.0.post_norm1.weight", 19);
  check_counts(read, "layers.0.norm2.weight", 29);
  check_counts(read, "layers.0.post_norm2.weight", 39);
  check_counts(read, "layers.norm.weight", -1);
  BOOST_CHECK_EQUAL(read.config.model.decoder.attention(0).window, 7);
}

// Mixtral: a tensor has a matrix of each expert.
BOOST_AUTO_TEST_CASE(experts_share_tensors) {
  Counting file("llama", "layer_norm_rms_epsilon");
  file.add("expert_count", 3).add("expert_used_count", 2);
  file.tensor("blk.0.attn_q.weight", {4, 4}, 0).tensor("blk.0.attn_k.weight", {4, 2}, 0);
  file.tensor("blk.0.attn_v.weight", {4, 2}, 0).tensor("blk.0.ffn_norm.weight", {4}, 0);
  file.tensor("blk.0.ffn_gate_inp.weight", {4, 3}, 400).tensor("blk.0.ffn_gate_exps.weight", {4, 6, 3}, 500);
  file.tensor("blk.0.ffn_up_exps.weight", {4, 6, 3}, 600).tensor("blk.0.ffn_down_exps.weight", {6, 4, 3}, 700);
  const Pretrained read = file.read();
  BOOST_CHECK(read.config.architecture == Architecture::mixtral && read.config.model.decoder.experts_chosen == 2);
  check_counts(read, "layers.0.ffn.router.weight", 400);
  for (const int expert : {0, 1, 2}) {
    const std::string path = "layers.0.ffn.experts." + std::to_string(expert) + ".";
    check_counts(read, path + "gate.weight", static_cast<real>(500 + 24 * expert));
    check_counts(read, path + "up.weight", static_cast<real>(600 + 24 * expert));
    check_counts(read, path + "down.weight", static_cast<real>(700 + 24 * expert));
  }
}

// Falcon's attention has a norm of its own in the large models, the second in the file.
BOOST_AUTO_TEST_CASE(two_norms_side_by_side) {
  for (const bool has_two : {false, true}) {
    Counting file("falcon", "layer_norm_epsilon");
    file.tensor("blk.0.attn_qkv.weight", {4, 8}, 100).tensor("blk.0.ffn_up.weight", {4, 6}, 200);
    file.tensor("blk.0.ffn_down.weight", {6, 4}, 300).tensor("blk.0.attn_norm.bias", {4}, 15);
    file.tensor("output_norm.bias", {4}, 60);
    if (has_two) file.tensor("blk.0.attn_norm_2.weight", {4}, 50).tensor("blk.0.attn_norm_2.bias", {4}, 55);
    const Pretrained read = file.read();
    check_counts(read, "layers.0.norm1.weight", has_two ? 50 : 10);
    check_counts(read, "layers.0.norm1.bias", has_two ? 55 : 15);
    if (has_two) check_counts(read, "layers.0.norm2.weight", 10);
    check_counts(read, "layers.0.self_attn.in_proj.weight", 100);
  }
}
