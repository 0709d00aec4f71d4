// GGUF files that are written, against a writer of the tests' own and the reader.
// needs: libraries: seppo::text
#include "models/gguf_models.h"
#include "support/errors.h"

#include <seppo/autograd/core/check.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <string>
#include <vector>

using namespace gguf_models;

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
  Parameters parameters(7);
  const auto refused = [&](const HfConfig& config, const std::string& part) {
    test::check_error<ArgumentError>([&] { gguf_of(config, parameters); }, {part});
  };
  refused(small(true, Architecture::gpt2), "gguf: the architecture gpt2 is not written");
  HfConfig scaled = small(true);
  scaled.model.decoder.rope.scaling = {.kind = RotaryScale::linear, .factor = 2};
  refused(scaled, "gguf: rope_parameters: {\"factor\":2.0");
  HfConfig biased = small(true);
  biased.model.decoder.qkv_bias = biased.model.decoder.out_bias = true;
  refused(biased, "gguf: attention_bias: true");
}

BOOST_AUTO_TEST_CASE(a_tokenizer_is_written_as_it_is_read) {
  for (const std::string pre : {"gpt-2", "smollm", "llama-bpe", "qwen2"}) {
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
  json words = gguf_like_tokenizer();
  words["pre_tokenizer"] = {{"type", "Whitespace"}};
  BOOST_CHECK_THROW(add_gguf_tokenizer(made, words, {.vocabulary = 300}, "f"), FormatError);
  BOOST_CHECK_THROW(add_gguf_tokenizer(made, gguf_like_tokenizer(), {.vocabulary = 1}, "f"), FormatError);
}

BOOST_AUTO_TEST_CASE(files_that_cannot_be_written) {
  BOOST_CHECK_THROW(GgufBuilder().write("no/such/folder/a.gguf"), FileError);
}
