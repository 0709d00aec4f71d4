// Models in Hugging Face's format, as a user of the library reads and writes them.
// needs: libraries: seppo::text
#include "support/stored.h"

#include <seppo/autograd/core/check.h>
#include <seppo/models/decoding/generate.h>
#include <seppo/models/hugging_face/pretrained.h>
#include <seppo/models/lora.h>
#include <seppo/nn/text/bos.h>
#include <seppo/nn/text/tokenizer_folder.h>

#include <boost/test/unit_test.hpp>

#include <unistd.h>
#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>

namespace fs = std::filesystem;
using namespace seppo;

namespace {

struct TemporaryFolder {
  fs::path path = fs::temp_directory_path() / ("seppo-pretrained-" + std::to_string(::getpid()));

  TemporaryFolder() {
    fs::remove_all(path);
    fs::create_directories(path);
  }
  ~TemporaryFolder() { fs::remove_all(path); }
};

HfConfig small(Architecture architecture) {
  HfConfig config{.architecture = architecture};
  set_architecture(architecture, config.model);
  config.model.vocabulary = 257;
  config.model.layer.d_model = 8;
  config.model.layer.n_heads = 2;
  config.model.layer.d_ff = 32;
  config.model.layer.dropout = 0;
  config.model.n_layers = 1;
  config.model.max_length = 16;
  config.bos = 256;
  config.stops = {256};
  return config;
}

// A new model, saved in the folder, and what its file has.
struct SavedModel {
  SavedModel(const fs::path& folder, const HfConfig& config)
      : model(parameters.root(), config.model), file(folder / "model.safetensors") {
    save_pretrained(folder, config, parameters);
    stored = test::read_stored(file);
  }
  Parameters parameters{3};
  LanguageModel model;
  fs::path file;
  test::Stored stored;
};

std::vector<int> continued(const LanguageModel& model, const Tokenizer& tokenizer) {
  Ragged prompt;
  prompt.add(encode(tokenizer, "abc", Bos::always, 256));
  return generate(model, prompt, {.max_tokens = 8, .sampling = {.temperature = 0}})[0];
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_saved_generates_the_same) {
  for (const Architecture architecture : {Architecture::llama, Architecture::gpt2}) {
    const TemporaryFolder folder;
    const HfConfig config = small(architecture);
    Parameters parameters(3);
    const LanguageModel model(parameters.root(), config.model);
    write_tokenizer(folder.path, {}, config.model.max_length);
    save_pretrained(folder.path, config, parameters);
    BOOST_CHECK(has_model(folder.path));

    const Tokenizer tokenizer = read_tokenizer(folder.path);
    const Pretrained read = load_pretrained(folder.path);
    BOOST_TEST(continued(read.model, tokenizer) == continued(model, tokenizer), boost::test_tools::per_element());
    BOOST_CHECK(read.config.architecture == architecture && read.config.stops == config.stops);
  }
}

// A file may have a copy of the embedding as the output layer, which is no other one: all of it is compared, though it
// is read some at a time.
BOOST_AUTO_TEST_CASE(a_copy_of_the_embedding_is_no_other_output_layer) {
  const TemporaryFolder folder;
  HfConfig config = small(Architecture::llama);
  config.model.layer.d_model = 400;
  config.model.vocabulary = 2000;  // several MiB, of no whole number
  config.model.tie_output = true;
  SavedModel saved(folder.path, config);
  test::Stored& all = saved.stored;
  test::StoredTensor copy = *std::ranges::find(all.tensors, "model.embed_tokens.weight", &test::StoredTensor::name);
  copy.name = "lm_head.weight";
  BOOST_REQUIRE_GT(copy.bytes.size(), std::size_t{2} << 20);
  all.tensors.push_back(copy);
  const auto is_tied = [&] {
    test::write_stored(saved.file, all);
    return load_pretrained(folder.path).config.model.tie_output;
  };
  BOOST_CHECK(is_tied());
  for (const std::size_t place : {std::size_t{0}, copy.bytes.size() / 2, copy.bytes.size() - 1}) {
    std::byte& changed = all.tensors.back().bytes[place / 4 * 4];  // the lowest bit of a number
    changed ^= std::byte{1};
    BOOST_CHECK(!is_tied());
    changed ^= std::byte{1};
  }
}

// Of a weight that two layers share some files keep the output layer's name only, which comes first in the alphabet.
BOOST_AUTO_TEST_CASE(an_embedding_under_the_name_of_the_output_layer) {
  for (const Architecture architecture : {Architecture::llama, Architecture::gpt2, Architecture::bloom}) {
    const TemporaryFolder folder;
    HfConfig config = small(architecture);
    config.model.tie_output = true;
    SavedModel saved(folder.path, config);
    const std::string embedding = weights_of(config).rename("embedding.weight").front();
    std::ranges::find(saved.stored.tensors, embedding, &test::StoredTensor::name)->name = "lm_head.weight";
    test::write_stored(saved.file, saved.stored);
    const Pretrained read = load_pretrained(folder.path);
    BOOST_CHECK(read.config.model.tie_output);
    BOOST_CHECK(std::ranges::equal(read.parameters->values(), saved.parameters.values()));
  }
}

BOOST_AUTO_TEST_CASE(what_is_missing_is_said) {
  const TemporaryFolder folder;
  const auto says = [](const char* part) {
    return [part](const ArgumentError& e) { return std::string(e.what()).find(part) != std::string::npos; };
  };
  BOOST_CHECK_EXCEPTION(load_pretrained(folder.path), ArgumentError, says("/config.json'"));
  BOOST_CHECK_EXCEPTION(read_tokenizer(folder.path), ArgumentError, says("has no tokenizer"));
}

BOOST_AUTO_TEST_CASE(adapters_that_are_not_finite_are_not_saved) {
  const TemporaryFolder folder;
  const HfConfig config = small(Architecture::llama);
  Parameters parameters(3);
  LanguageModel model(parameters.root(), config.model);
  const Adapters adapters(parameters, model, {.lora = 2});
  adapters.save(folder.path);
  parameters.edit().back() = std::numeric_limits<real>::quiet_NaN();
  BOOST_CHECK_THROW(adapters.save(folder.path), NumericError);
  Parameters others(4);
  LanguageModel other(others.root(), config.model);
  const Adapters read = Adapters::read(folder.path, others, other);  // still what was saved before
  BOOST_CHECK_EQUAL(others.find("lora.layers.0.ffn.up.a")->tensor.size(0), 2);
}
