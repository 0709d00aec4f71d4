// GGUF files that are written, against a writer of the tests' own and the reader.
// needs: libraries: seppo::text
#include "models/gguf_models.h"
#include "support/errors.h"

#include <seppo/autograd/core/check.h>
#include <seppo/nn/text/sentencepiece_json.h>
#include <seppo/nn/text/tokenizer_json.h>
#include <seppo/nn/text/tokenizer_json_writer.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

using namespace gguf_models;
namespace fs = std::filesystem;

namespace {

const std::string kSaid = " is nothing that a file of this architecture has";
const fs::path kFolders = test::source_folder() + "/tests/examples/hugging_face/folders";

// Of the configs of every family: those that a file cannot have, and why.
const std::map<std::string, std::string> kRefused{
    {"gemma2", "gguf: query_pre_attn_scalar: 24" + kSaid},
    {"gemma3", "gguf: layer_types: [\"sliding_attention\",\"full_attention\",\"sliding_attention\"]" + kSaid},
    {"llama_rope_dynamic",
     "gguf: rope_parameters: {\"factor\":2.0,\"rope_theta\":10000.0,\"rope_type\":\"dynamic\"}" + kSaid},
    {"llama_rope_llama3",
     "a file of this architecture cannot have this model: gguf: tensor rope_freqs.weight is not that of Llama 3.1, for "
     "texts of 8,192 tokens"},
    {"mistral_window", "gguf: sliding_window: 8" + kSaid},
    {"opt", "gguf: the architecture opt is none of llama.cpp's"},
    {"smollm3", "gguf: no_rope_layers: [1,0,1,0]" + kSaid}};

// A model with weights that are no defaults. They are multiples of 1 / 1024, so that 1 more and 1 less is the same.
struct Drawn {
  explicit Drawn(const HfConfig& config) : config(config), model(parameters.root(), config.model) {
    RandomStream random(5, Purpose::data);
    for (real& value : parameters.edit())
      value = static_cast<real>(std::round(1024 * (static_cast<double>(value) + 0.1 * random.normal())) / 1024);
  }
  std::string refusal() const {
    return test::message([&] { gguf_of(config, parameters); });
  }

  HfConfig config;
  Parameters parameters{3};
  LanguageModel model;
};

void check_read_as_written(const Drawn& drawn) {
  const test::Folder folder("gguf");
  gguf_of(drawn.config, drawn.parameters).write(folder.path / "m.gguf");
  const Pretrained read = load_gguf(folder.path / "m.gguf");
  BOOST_CHECK_EQUAL(to_json_object(read.config.model), to_json_object(drawn.config.model));
  BOOST_CHECK(std::ranges::equal(read.parameters->values(), drawn.parameters.values()));
}

HfConfig config_of(const std::string& folder) { return read_hf_config(kFolders / folder / "config.json"); }

}  // namespace

// What is written of a model of any family is read as the same model.
BOOST_AUTO_TEST_CASE(every_family_is_read_as_it_was_written) {
  std::map<std::string, std::string> refused;
  for (const auto& entry : fs::directory_iterator(kFolders)) {
    const std::string name = entry.path().filename();
    const Drawn drawn(config_of(name));
    const std::string why = drawn.refusal();
    if (why == "no error") {
      BOOST_TEST_CONTEXT(name) { check_read_as_written(drawn); }
    } else {
      refused[name] = why;
    }
  }
  BOOST_CHECK(refused == kRefused);
}

// What llama.cpp knows of an architecture without a word in the file: which layers have windows, or no positions.
BOOST_AUTO_TEST_CASE(layers_that_llama_cpp_knows) {
  HfConfig gemma3 = config_of("gemma3");
  gemma3.model.n_layers = 7;
  gemma3.model.decoder.attention_scale = 0;
  gemma3.model.decoder.attentions.assign(7, {.window = 8, .positions = LayerPositions::local});
  gemma3.model.decoder.attentions[5] = {};
  check_read_as_written(Drawn(gemma3));
  HfConfig largest = config_of("gemma2");  // the scale of attention is that of the model's columns for each head
  largest.model.n_layers = 46;
  largest.model.decoder.attentions.assign(46, {});
  for (std::size_t i = 0; i < 46; i += 2) largest.model.decoder.attentions[i].window = 8;
  largest.model.decoder.attention_scale = 1 / std::sqrt(largest.model.layer.d_model / largest.model.layer.n_heads);
  check_read_as_written(Drawn(largest));
  HfConfig smollm3 = config_of("smollm3");
  smollm3.model.n_layers = 5;
  smollm3.model.decoder.attentions.assign(5, {});
  smollm3.model.decoder.attentions[3].positions = LayerPositions::none;
  check_read_as_written(Drawn(smollm3));
  HfConfig scaled = small(true);
  scaled.model.layer.head_width = 16;
  scaled.model.rope_theta = 500000;
  scaled.model.decoder.rope.scaling = {
      .kind = RotaryScale::llama3, .factor = 8, .original_length = 8192, .slow = 1, .fast = 4};
  check_read_as_written(Drawn(scaled));
}

// Where llama.cpp asks for an output layer, a model that has none of its own gives it its embedding once more.
BOOST_AUTO_TEST_CASE(an_output_layer_that_is_the_embedding) {
  for (const char* family : {"gpt_neox", "olmo2", "stablelm"}) BOOST_TEST_CONTEXT(family) {
      HfConfig config = config_of(family);
      config.model.tie_output = true;
      const Drawn drawn(config);
      const test::Folder folder("gguf");
      gguf_of(config, drawn.parameters).write(folder.path / "m.gguf");
      const Pretrained read = load_gguf(folder.path / "m.gguf");
      BOOST_CHECK(!read.config.model.tie_output);
      const auto& values = read.parameters->find("output.weight")->tensor.values();
      BOOST_CHECK(std::ranges::equal(values, drawn.parameters.find("embedding.weight")->tensor.values()));
    }
}

// What is written is what the tests' own writer writes, but for keys that are defaults.
BOOST_AUTO_TEST_CASE(a_model_is_written_as_it_is_read) {
  for (const Architecture architecture :
       {Architecture::llama, Architecture::mistral, Architecture::qwen2, Architecture::qwen3})
    for (const bool tie_output : {true, false}) {
      const test::Folder folder("gguf");
      HfConfig config = small(tie_output, architecture);
      config.model.decoder.attentions.clear();
      Parameters parameters(7);
      const LanguageModel model(parameters.root(), config.model);
      GgufBuilder made = gguf_of(config, parameters);
      made.write(folder.path / "made.gguf");
      const Pretrained read = load_gguf(folder.path / "made.gguf");
      BOOST_CHECK(std::ranges::equal(read.parameters->values(), parameters.values()));
      BOOST_CHECK(to_json_object(read.config.model) == to_json_object(config.model));
      if (architecture == Architecture::mistral) continue;
      GgufWriter writer;
      add_metadata(writer, config);
      add_weights(writer, parameters, config);
      folder.write("theirs.gguf", writer.file());
      const GgufFile ours(folder.path / "made.gguf"), theirs(folder.path / "theirs.gguf");
      for (const GgufTensor& tensor : theirs.tensors()) {
        const GgufTensor* const own = ours.find(tensor.name);
        BOOST_REQUIRE(own && own->shape == tensor.shape && own->offset % 32 == 0);
        std::vector<real> a(tensor.numel()), b(tensor.numel());
        theirs.read(tensor, a);
        ours.read(*own, b);
        BOOST_CHECK(a == b);
      }
      for (const auto& [key, value] : theirs.metadata().items()) BOOST_CHECK_EQUAL(ours.metadata().at(key), value);
    }
}

BOOST_AUTO_TEST_CASE(what_is_not_written) {
  const auto refused = [&](const HfConfig& config, const std::string& part) {
    const Drawn drawn(config);
    test::check_error<ArgumentError>([&] { gguf_of(config, drawn.parameters); }, {part});
  };
  refused(small(true, Architecture::opt), "gguf: the architecture opt is none of llama.cpp's");
  HfConfig scaled = small(true);
  scaled.model.decoder.rope.scaling = {.kind = RotaryScale::dynamic, .factor = 2};
  refused(scaled, "gguf: rope_parameters: {\"factor\":2.0");
  // llama.cpp would not read these, or not as they are.
  HfConfig factors = config_of("qwen2");
  factors.model.decoder.rope.scaling = {
      .kind = RotaryScale::llama3, .factor = 8, .original_length = 8192, .slow = 1, .fast = 4};
  refused(factors, "gguf: rope_scaling: 'llama3' is nothing that 'qwen2' has");
  HfConfig wide = config_of("olmo2");
  wide.model.layer.head_width = 16;
  refused(wide, "gguf: head_dim: heads of 'olmo2' are as wide as");
  for (const char* family : {"gemma", "gemma2", "cohere"}) {
    HfConfig untied = config_of(family);
    untied.model.tie_output = false;
    refused(untied, "gguf: tie_word_embeddings: the output layer of");
  }
  for (double DecoderConfig::*cap : {&DecoderConfig::attention_softcap, &DecoderConfig::output_softcap}) {
    HfConfig uncapped = config_of("gemma2");
    uncapped.model.decoder.attention_scale = 0;
    uncapped.model.decoder.*cap = 0;
    refused(uncapped, "_logit_softcapping");
  }
  HfConfig phi3 = config_of("phi3");
  phi3.model.decoder.attentions.clear();
  const Drawn unwindowed(phi3);
  const GgufBuilder made = gguf_of(phi3, unwindowed.parameters);
  BOOST_CHECK_EQUAL(made.metadata().at("phi3.attention.sliding_window"), 0);
  HfConfig windowed = small(true, Architecture::mistral);
  windowed.model.decoder.attentions.assign(2, {.window = 8});
  refused(windowed, "gguf: sliding_window: 8");
}

BOOST_AUTO_TEST_CASE(a_tokenizer_is_written_as_it_is_read) {
  for (const std::string pre : {"gpt-2", "smollm", "llama-bpe", "qwen2", "stablelm2", "falcon", "bloom"}) {
    const test::Folder folder("gguf");
    GgufWriter writer;
    add_tokenizer(writer, pre);
    folder.write("f.gguf", writer.file());
    const GgufFile file(folder.path / "f.gguf");
    GgufBuilder made;
    add_gguf_tokenizer(made, gguf_tokenizer_json(file),
                       {.vocabulary = kTokens + 1,
                        .bos = 258,
                        .eos = 259,
                        .adds_bos = pre == "llama-bpe",
                        .chat_template = gguf_chat_template(file)},
                       "f");
    made.write(folder.path / "made.gguf");
    const GgufFile again(folder.path / "made.gguf");
    for (const auto& [key, value] : file.metadata().items())
      if (key != "tokenizer.ggml.tokens" && key != "tokenizer.ggml.token_type")
        BOOST_CHECK_EQUAL(again.metadata().at(key), value);
    BOOST_CHECK_EQUAL(again.metadata().at("tokenizer.ggml.tokens").at(kTokens), "[unused 260]");
    const std::string text = "abcab <end> 1234  it's";
    BOOST_CHECK(read_gguf_tokenizer(again).encode(text) == read_gguf_tokenizer(file).encode(text));
  }
  GgufBuilder made;
  json bytes = gguf_like_tokenizer();  // which has no merges
  bytes["model"]["merges"] = json::array();
  add_gguf_tokenizer(made, bytes, {.vocabulary = kTokens}, "f");
  const test::Folder folder("gguf");
  made.write(folder.path / "bytes.gguf");
  BOOST_CHECK((read_gguf_tokenizer(GgufFile(folder.path / "bytes.gguf")).encode("ab") == std::vector<int>{'a', 'b'}));
  json words = gguf_like_tokenizer();
  words["pre_tokenizer"] = {{"type", "Whitespace"}};
  BOOST_CHECK_THROW(add_gguf_tokenizer(made, words, {.vocabulary = 300}, "f"), FormatError);
  BOOST_CHECK_THROW(add_gguf_tokenizer(made, gguf_like_tokenizer(), {.vocabulary = 1}, "f"), FormatError);
}

// Whether words that are tokens are merged nevertheless is part of the name of the words.
BOOST_AUTO_TEST_CASE(names_of_words_say_how_they_merge) {
  const test::Folder folder("words");
  GgufWriter writer;
  add_tokenizer(writer, "llama-bpe");
  folder.write("f.gguf", writer.file());
  json tokenizer = gguf_tokenizer_json(GgufFile(folder.path / "f.gguf"));
  const auto name = [&] {
    GgufBuilder made;
    add_gguf_tokenizer(made, tokenizer, {.vocabulary = kTokens}, "f");
    return made.metadata().at("tokenizer.ggml.pre").get<std::string>();
  };
  BOOST_CHECK_EQUAL(name(), "llama-bpe");
  tokenizer["model"]["ignore_merges"] = false;
  BOOST_CHECK_EQUAL(name(), "dbrx");
  tokenizer["model"]["end_of_word_suffix"] = "</w>";
  BOOST_CHECK_THROW(name(), FormatError);
  tokenizer = gguf_like_tokenizer();
  tokenizer["model"]["ignore_merges"] = true;
  BOOST_CHECK_THROW(name(), FormatError);
}

// Only Phi-3's tokens take the white space behind them, which its name says.
BOOST_AUTO_TEST_CASE(white_space_behind_tokens) {
  const test::Folder folder("white");
  const auto read = [&](const json& tokenizer) {
    GgufBuilder made;
    add_gguf_tokenizer(made, tokenizer, {.vocabulary = kTokens}, "f");
    made.write(folder.path / "f.gguf");
    return read_gguf_tokenizer(GgufFile(folder.path / "f.gguf"));
  };
  const auto ids = [&](const json& tokenizer) { return read(tokenizer).encode("<end>\n a", SpecialText::tokens); };
  json tokenizer = gguf_like_tokenizer();
  const std::vector<int> kept = ids(tokenizer);
  BOOST_CHECK_EQUAL(kept.size(), 4);
  for (json& token : tokenizer["added_tokens"]) token["rstrip"] = true;
  BOOST_CHECK((ids(tokenizer) == std::vector<int>{259, kept.back()}));
  tokenizer["added_tokens"][0]["rstrip"] = false;
  test::check_error<FormatError>([&] { read(tokenizer); },
                                 {"f: a GGUF file cannot say which of its tokens have 'rstrip'"});
  for (const char* flag : {"lstrip", "single_word"}) {
    json other = gguf_like_tokenizer();
    other["added_tokens"][1][flag] = true;
    test::check_error<FormatError>([&] { read(other); },
                                   {"f: a GGUF file cannot say '" + std::string(flag) + "' of the token '<end>'"});
  }
  GgufWriter named;
  add_tokenizer(named);
  named.add("general.name", std::string("My Phi-3 mini"));
  folder.write("named.gguf", named.file());
  BOOST_CHECK_EQUAL(
      read_gguf_tokenizer(GgufFile(folder.path / "named.gguf")).encode("<end>\na", SpecialText::tokens).size(), 2);
}

// Each program counts another one of equal merges, and neither has tokens without a text.
BOOST_AUTO_TEST_CASE(equal_merges_and_empty_tokens) {
  json tokenizer = gguf_like_tokenizer();
  json& merges = tokenizer["model"]["merges"];
  BOOST_REQUIRE_EQUAL(merges.size(), 2);  // "a b" and "ab c"
  tokenizer["model"]["vocab"]["bc"] = 260U;
  merges = {"a b", "b c", "ab c", "a b"};
  tokenizer["added_tokens"].push_back({{"id", 5U}, {"content", ""}, {"special", true}});
  GgufBuilder made;
  add_gguf_tokenizer(made, tokenizer, {.vocabulary = 261}, "f");
  BOOST_CHECK_EQUAL(made.metadata().at("tokenizer.ggml.merges"), (json{"b c", "ab c", "a b"}));
  BOOST_CHECK_NE(made.metadata().at("tokenizer.ggml.tokens").at(5), "");
  const test::Folder folder("merges");
  made.write(folder.path / "f.gguf");
  const std::vector<int> ids = read_tokenizer_json(tokenizer, "t").encode("abc");
  BOOST_CHECK(read_gguf_tokenizer(GgufFile(folder.path / "f.gguf")).encode("abc") == ids);
  BOOST_CHECK(ids.size() == 2 && ids[1] == 260);
}

// Tokens that end a text, besides EOS: two have keys, others are known by their texts.
BOOST_AUTO_TEST_CASE(all_tokens_that_end_a_text) {
  GgufBuilder made;
  json tokenizer = gguf_like_tokenizer();
  tokenizer["model"]["vocab"]["<end_of_turn>"] = kTokens;
  add_gguf_tokenizer(made, tokenizer, {.vocabulary = kTokens + 1, .eos = 259, .ends = {kTokens, 3, 5}}, "f");
  BOOST_CHECK_EQUAL(made.metadata().at("tokenizer.ggml.eot_token_id"), 3);
  BOOST_CHECK_EQUAL(made.metadata().at("tokenizer.ggml.eom_token_id"), 5);
  GgufBuilder more;
  test::check_error<FormatError>(
      [&] {
        add_gguf_tokenizer(more, tokenizer, {.vocabulary = kTokens + 1, .ends = {3, 5, 7}}, "f");
      },
      {"f: a GGUF file cannot name token 7 as one more that ends a text"});
}

// SentencePiece's BPE: what is written merges the same pairs in the same order, whatever the scores were.
BOOST_AUTO_TEST_CASE(pieces_are_written_as_they_are_read) {
  const std::string mark = "\u2581";
  for (const bool adds_space : {true, false}) {
    SentencePieces pieces{
        .texts = {"<unk>", "<s>", "</s>", "<0x41>", mark, "a", "b", "c", "bc", "ab", mark + "a", "abc"},
        .scores = {0, 0, 0, 0, -90, -91, -92, -93, -1.5, -2.5, -2.5, -7},
        .types = {PieceType::unknown, PieceType::control, PieceType::control, PieceType::byte},
        .adds_space = adds_space,
        .unknown = 0};
    pieces.types.resize(pieces.texts.size(), PieceType::normal);
    for (std::size_t id = 0; id < pieces.texts.size(); ++id) pieces.ids[pieces.texts[id]] = id;
    const json tokenizer = whole_json(sentencepiece_json(pieces, "p"));
    GgufBuilder made;
    const int size = static_cast<int>(pieces.texts.size());
    add_gguf_tokenizer(made, tokenizer, {.vocabulary = size + 2, .bos = 1, .eos = 2, .adds_bos = true}, "p");
    const test::Folder folder("gguf");
    made.write(folder.path / "p.gguf");
    const GgufFile file(folder.path / "p.gguf");
    const json read = gguf_tokenizer_json(file);
    for (const char* part : {"normalizer", "decoder", "added_tokens"}) BOOST_CHECK_EQUAL(read[part], tokenizer[part]);
    BOOST_CHECK_EQUAL(read["model"]["merges"], tokenizer["model"]["merges"]);
    BOOST_CHECK_EQUAL(read["model"]["unk_token"], "<unk>");
    const std::vector<int> ids = adds_space ? std::vector{1, 10, 8, 4, 3} : std::vector{1, 11, 4, 3};
    BOOST_TEST(read_gguf_tokenizer(file).encode("abc A") == ids, boost::test_tools::per_element());

    json fewer = tokenizer;  // as trainers of BPE write them, which note one pair for each token
    fewer["model"]["merges"].erase(0);
    test::check_error<FormatError>([&] { add_gguf_tokenizer(made, fewer, {.vocabulary = size}, "p"); },
                                   {"p: is no BPE of SentencePiece"});
    json other = tokenizer;
    other["normalizer"] = {{"type", "NFC"}};
    BOOST_CHECK_THROW(add_gguf_tokenizer(made, other, {.vocabulary = size}, "p"), FormatError);
    other = tokenizer;
    other["pre_tokenizer"] = {{"type", "Metaspace"}};
    BOOST_CHECK_THROW(add_gguf_tokenizer(made, other, {.vocabulary = size}, "p"), FormatError);
  }
}

BOOST_AUTO_TEST_CASE(files_that_cannot_be_written) {
  BOOST_CHECK_THROW(GgufBuilder().write("no/such/folder/a.gguf"), FileError);
  GgufBuilder twice;
  twice.add("a.b", 1u);
  test::check_error<ArgumentError>([&] { twice.add("a.b", 2.0F); }, {"gguf: a.b is there already"});
}
