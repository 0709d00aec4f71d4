// Language models in GGUF files: the same model and tokenizer as in Hugging Face's format.
// needs: libraries: seppo::text
#define BOOST_TEST_MODULE gguf_model
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
