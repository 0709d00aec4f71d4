// Language models in GGUF files: the same model and tokenizer as in Hugging Face's format.
// needs: libraries: seppo::text
#include <seppo/autograd/core/check.h>
#include <seppo/models/decoding/generate.h>
#include <seppo/models/gguf/gguf_model.h>
#include <seppo/nn/text/gguf_tokenizer.h>

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

// What is not UTF-8 is refused as anything else is, wherever it is, and shown with a mark in its place.
BOOST_AUTO_TEST_CASE(texts_that_are_not_utf8) {
  const std::string bad = "a\xff";
  Parameters parameters(7);
  const HfConfig config = small(true);
  const LanguageModel model(parameters.root(), config.model);
  GgufWriter note;
  add_metadata(note, config);
  add_weights(note, parameters, config);
  GgufWriter scaled = note;
  note.add("llama.note", bad);
  refused(note, "llama.note: \"a\\ufffd\" is not supported");
  scaled.add("llama.rope.scaling.type", bad);
  refused(scaled, "'llama.rope.scaling.type': \"a\\ufffd\" is not supported");
  GgufWriter other;
  other.add("general.architecture", bad);
  refused(other, "general.architecture: \"a\\ufffd\" is not supported");
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
}

// ---- other architectures: tensors that count on, so that it is seen where each number goes

namespace {

// A file of one layer, whose tensors hold consecutive numbers.
class Counting {
 public:
  Counting(const std::string& kind, const std::string& epsilon, std::uint32_t type = 0) : kind_(kind), type_(type) {
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
    if (type_ == 0) {
      writer_.floats(name, sizes, values);
    } else {  // two bytes each, zeros
      writer_.tensor(name, sizes, type_, std::string(2 * count, '\0'));
    }
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
  std::uint32_t type_;  // as ggml numbers them
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
  file.add("expert_count", 12).add("expert_used_count", 2);
  file.tensor("blk.0.attn_q.weight", {4, 4}, 0).tensor("blk.0.attn_k.weight", {4, 2}, 0);
  file.tensor("blk.0.attn_v.weight", {4, 2}, 0).tensor("blk.0.ffn_norm.weight", {4}, 0);
  file.tensor("blk.0.ffn_gate_inp.weight", {4, 12}, 400).tensor("blk.0.ffn_gate_exps.weight", {4, 6, 12}, 500);
  file.tensor("blk.0.ffn_up_exps.weight", {4, 6, 12}, 1000).tensor("blk.0.ffn_down_exps.weight", {6, 4, 12}, 2000);
  const Pretrained read = file.read();
  BOOST_CHECK(read.config.architecture == Architecture::mixtral && read.config.model.decoder.experts_chosen == 2);
  check_counts(read, "layers.0.ffn.router.weight", 400);
  for (int expert = 0; expert < 12; ++expert) {
    const std::string path = "layers.0.ffn.experts." + std::to_string(expert) + ".";
    check_counts(read, path + "gate.weight", static_cast<real>(500 + 24 * expert));
    check_counts(read, path + "up.weight", static_cast<real>(1000 + 24 * expert));
    check_counts(read, path + "down.weight", static_cast<real>(2000 + 24 * expert));
  }
}

// What is written in the same type as it was read needs to be known.
BOOST_AUTO_TEST_CASE(types_of_files) {
  const auto type_of = [](std::uint32_t type) {
    Counting file("llama", "layer_norm_rms_epsilon", type);
    file.add("expert_count", 24).add("expert_used_count", 2);  // more numbers than there are metadata
    file.tensor("blk.0.attn_q.weight", {4, 4}, 0).tensor("blk.0.attn_k.weight", {4, 2}, 0);
    file.tensor("blk.0.attn_v.weight", {4, 2}, 0).tensor("blk.0.ffn_norm.weight", {4}, 0);
    file.tensor("blk.0.ffn_gate_inp.weight", {4, 24}, 0).tensor("blk.0.ffn_gate_exps.weight", {4, 6, 24}, 0);
    file.tensor("blk.0.ffn_up_exps.weight", {4, 6, 24}, 0).tensor("blk.0.ffn_down_exps.weight", {6, 4, 24}, 0);
    return file.read().type;
  };
  BOOST_CHECK(type_of(0) == WeightType::own);
  BOOST_CHECK(type_of(1) == WeightType::float16);
  BOOST_CHECK(type_of(30) == WeightType::bfloat16);
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
