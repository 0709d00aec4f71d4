// llm: Hugging Face folders, generated text and its scores, training and adapters.
// needs: programs: llm
#include <seppo/models/lora.h>
#include <seppo/models/window_score.h>
#include "support/llm_models.h"
#include "support/stories.h"

#include <seppo/autograd/ops.h>
#include <seppo/models/decoding/generate.h>
#include <seppo/nn/io/safetensors.h>

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstring>
#include <map>
#include <set>

using namespace test;
using seppo::LanguageModel;

namespace {

std::string fable(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "A fox saw a crow. The crow had a piece of cheese, and sang. ";
  return text;
}

// Trains a small model briefly; runs/llm/hf is its folder.
const Words kTrain{"llm",      "train", "--data",       "t.txt", "--d-model", "16", "--heads",       "2",
                   "--layers", "1",     "--max-length", "16",    "--epochs",  "1",  "--epoch-steps", "40",
                   "--lr",     "0.01",  "--log-format", "none",  "--json"};

std::map<std::string, std::string> tensors_of(const fs::path& file) {
  std::map<std::string, std::string> all;
  const seppo::SafeTensorsFile weights(file);
  for (const seppo::TensorInfo& tensor : weights.tensors()) {
    std::string bytes(tensor.bytes(), '\0');
    weights.read(tensor, std::as_writable_bytes(std::span(bytes)));
    all[tensor.name + " " + tensor.dtype] = bytes;
  }
  return all;
}

std::vector<int> greedy(const llm::Folder& folder) {
  seppo::Ragged prompt;
  prompt.add(folder.encode(""));
  std::vector<int> tokens = generate(folder.model, prompt, {.max_tokens = 256, .sampling = {.temperature = 0}})[0];
  tokens.insert(tokens.begin(), prompt.tokens.begin(), prompt.tokens.end());
  return tokens;
}

}  // namespace

// The story that llama2.c publishes for this model, token by token.
BOOST_AUTO_TEST_CASE(the_published_story) {
  const auto stories = stories260k();
  if (!stories) return;
  const nlohmann::json published = nlohmann::json::parse(read(*stories / "greedy.json"));
  const std::string story = published["text"];
  const auto ids = published["token_ids"].get<std::vector<int>>();
  const llm::Folder model = llm::open_folder(*stories);
  BOOST_TEST(greedy(model) == ids, boost::test_tools::per_element());
  BOOST_CHECK_EQUAL(model.tokenizer.decode(ids), story);

  const Folder folder("llm");
  const Words command{"llm", "generate", "--model", stories->string(), "--temperature", "0", "--max-tokens"};
  BOOST_CHECK_EQUAL(folder.run(with(command, {"256"})).out, story);
  BOOST_CHECK_EQUAL(folder.run(with(command, {"256", "--threads", "2"})).out, story);
  const std::string prompted = "Once upon a time, there was a little girl";
  const Result r = folder.run(with(command, {"12", "--prompt", prompted}));
  BOOST_CHECK_MESSAGE(story.starts_with(r.out) && r.out.size() > prompted.size(), r.out << r.err);
}

// With weights rounded to BF16, the model tells the same story at first, then departs from it, exactly as llama2.c's
// run.c does with the same weights.
BOOST_AUTO_TEST_CASE(the_story_of_weights_in_half) {
  const auto stories = stories260k();
  if (!stories) return;
  const Folder folder("llm");
  for (const char* file : {"config.json", "tok512.bin"}) fs::copy_file(*stories / file, folder.path / file);
  fs::copy_file(*stories / "model-bf16.safetensors", folder.path / "model.safetensors");
  const std::string story = nlohmann::json::parse(read(*stories / "greedy.json"))["text"];
  const std::string ending =
      "Lily said, \"I'm sorry, mom. I didn't know what to do.\" Her mom said, \"I'm sorry, Lily. I didn't know what to "
      "do.\" Lily smiled and said, \"I";
  const llm::Folder model = llm::open_folder(folder.path);
  BOOST_CHECK_EQUAL(model.tokenizer.decode(greedy(model)), story.substr(0, story.find("Lily didn't want")) + ending);
}

// Weights of BF16 are the same in memory, and 8-bit ones predict almost as well, for any number of threads.
BOOST_AUTO_TEST_CASE(weights_in_less_memory) {
  const auto stories = stories260k();
  if (!stories) return;
  const Folder folder("llm");
  for (const char* file : {"config.json", "tok512.bin"}) fs::copy_file(*stories / file, folder.path / file);
  fs::copy_file(*stories / "model-bf16.safetensors", folder.path / "model.safetensors");
  const Words command{"llm", "generate", "--model", ".", "--temperature", "0", "--max-tokens", "256"};
  const std::string story = folder.run(command).out;
  BOOST_CHECK_EQUAL(folder.run(with(command, {"--weights", "bf16"})).out, story);
  const std::string told = folder.run(with(command, {"--weights", "q8"})).out;
  BOOST_CHECK_EQUAL(folder.run(with(command, {"--weights", "q8", "--threads", "3"})).out, told);

  folder.write("t.txt", story);
  const Words eval{"llm", "eval", "--model", stories->string(), "--data", "t.txt", "--json", "--weights"};
  const auto perplexity = [&](const char* format) {
    const std::string out = folder.run(with(eval, {format})).out;
    return nlohmann::json::parse(out.substr(out.find('{')))["perplexity"].get<double>();
  };
  const double full = perplexity("full");
  BOOST_CHECK_CLOSE(perplexity("bf16"), full, 0.1);
  BOOST_CHECK_CLOSE(perplexity("q8"), full, 0.5);
  BOOST_CHECK_NE(perplexity("q8"), full);
}

// The window slides: a longer text begins with the shorter one.
BOOST_AUTO_TEST_CASE(a_story_longer_than_the_window) {
  const auto stories = stories260k();
  if (!stories) return;
  const Folder folder("llm");
  const Words command{"llm", "generate", "--model", stories->string(), "--temperature", "0", "--max-tokens"};
  const std::string first = folder.run(with(command, {"511"})).out, all = folder.run(with(command, {"700"})).out;
  BOOST_CHECK(all.starts_with(first) && all.size() > first.size() + 200);
}

// Bits per byte from the logits, by a naive loop.
BOOST_AUTO_TEST_CASE(a_score_counts_each_token_once) {
  const Folder folder("llm");
  folder.write("t.txt", fable(30));
  BOOST_REQUIRE_EQUAL(folder.run(kTrain).code, 0);
  const fs::path runs = folder.path / "runs/llm";
  const llm::Folder model = llm::open_folder(runs);
  const std::string text = "The crow sang to the fox, éh? The fox had the cheese.";
  const std::vector<int> tokens = model.encode(text, seppo::Bos::always);
  for (const auto& [window, stride] : {std::pair(16, 16), {16, 8}, {16, 1}, {5, 3}, {16, 15}}) {
    double nats = 0;
    int end = 0;  // the last token predicted so far
    for (int begin = 0; end + 1 < std::ssize(tokens); begin += stride) {
      const seppo::Inference guard;
      const int last = std::min(begin + window, static_cast<int>(tokens.size()) - 1);
      seppo::Ragged input;
      input.add(std::span(tokens).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(last - begin)));
      const seppo::Tensor logits = model.model(input);
      for (int target = end + 1; target <= last; ++target) {
        const auto row =
            logits.values().subspan(static_cast<std::size_t>(target - 1 - begin) * logits.cols(), logits.cols());
        double sum = 0;
        for (const float x : row) sum += std::exp(static_cast<double>(x));
        nats += std::log(sum) -
                static_cast<double>(row[static_cast<std::size_t>(tokens[static_cast<std::size_t>(target)])]);
      }
      end = last;
    }
    const seppo::WindowScore score = seppo::score_windows([&] { return model.model; }, tokens, window, stride);
    BOOST_CHECK_CLOSE(score.nats, nats, 1e-3);
    BOOST_CHECK_EQUAL(score.tokens, tokens.size() - 1);
    folder.write("x.txt", text);
    const Result r = folder.run({"llm", "eval", "--data", "x.txt", "--window", std::to_string(window), "--stride",
                                 std::to_string(stride), "--json", "--bos", "always"});
    BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
    BOOST_CHECK_CLOSE(last_line(r.out)["bits_per_byte"].get<double>(),
                      nats / std::log(2) / static_cast<double>(text.size()), 1e-3);
    BOOST_CHECK_CLOSE(last_line(r.out)["perplexity"].get<double>(),
                      std::exp(nats / static_cast<double>(tokens.size() - 1)), 1e-3);
  }
}

// A folder that is read and written again keeps its tensors, their names and its config.
BOOST_AUTO_TEST_CASE(folders_survive_a_round_trip) {
  const auto stories = stories260k();
  if (!stories) return;
  const Folder folder("llm");
  const llm::Folder model = llm::open_folder(*stories);
  llm::write_folder(folder.path / "again", model.config, *model.parameters, model.path);
  BOOST_CHECK(tensors_of(folder.path / "again/model.safetensors") == tensors_of(*stories / "model.safetensors"));
  const auto before = nlohmann::json::parse(read(*stories / "config.json")),
             after = nlohmann::json::parse(read(folder.path / "again/config.json"));
  for (const auto& [key, value] : before.items())
    BOOST_CHECK_MESSAGE(after[key] == value, key << " became " << after[key]);
  BOOST_CHECK_EQUAL(read(folder.path / "again/tok512.bin"), read(*stories / "tok512.bin"));
}

// GPT-2 stores its matrices transposed, as [in, out], a legacy of TensorFlow.
BOOST_AUTO_TEST_CASE(gpt2_weights_lie_transposed) {
  const Folder folder("llm");
  seppo::HfConfig config{.architecture = seppo::Architecture::gpt2,
                         .model = {.vocabulary = 7,
                                   .layer = {.d_model = 4, .n_heads = 2, .d_ff = 6, .dropout = 0},
                                   .n_layers = 1,
                                   .max_length = 5}};
  seppo::set_architecture(config.architecture, config.model);
  seppo::Parameters parameters(1);
  const LanguageModel model(parameters.root(), config.model);
  seppo::save_weights(folder.path / "w", parameters, seppo::weights_of(config));
  const seppo::SafeTensorsFile file(folder.path / "w");
  const auto read_tensor = [&](const std::string& name, const std::vector<std::int64_t>& shape) {
    const auto found = std::ranges::find(file.tensors(), name, &seppo::TensorInfo::name);
    BOOST_REQUIRE_MESSAGE(found != file.tensors().end() && found->shape == shape, name);
    std::vector<float> values(found->bytes() / 4);
    file.read(*found, std::as_writable_bytes(std::span(values)));
    return values;
  };
  const auto check_matrix = [&](const std::string& name, const seppo::Tensor& ours) {
    const std::size_t out = static_cast<std::size_t>(ours.size(0)), in = static_cast<std::size_t>(ours.size(1));
    const auto theirs = read_tensor(name, {ours.size(1), ours.size(0)});
    for (std::size_t i = 0; i < in; ++i)
      for (std::size_t o = 0; o < out; ++o) BOOST_CHECK_EQUAL(theirs[i * out + o], ours.values()[o * in + i]);
  };
  const seppo::DecoderBlock& layer = model.layers.layers[0];
  check_matrix("transformer.h.0.attn.c_attn.weight", layer.self_attn.in_proj.weight);
  check_matrix("transformer.h.0.attn.c_proj.weight", layer.self_attn.out_proj.weight);
  check_matrix("transformer.h.0.mlp.c_fc.weight", layer.ffn->up.weight);
  check_matrix("transformer.h.0.mlp.c_proj.weight", layer.ffn->down.weight);
  for (const auto& [name, ours] :
       {std::pair("transformer.wte.weight", model.embedding.weight), {"transformer.wpe.weight", model.positions.table}})
    BOOST_CHECK(std::ranges::equal(read_tensor(name, {ours.size(0), 4}), ours.values()));
  for (const char* name : {"transformer.h.0.ln_1.weight", "transformer.h.0.ln_2.bias", "transformer.ln_f.weight",
                           "transformer.h.0.attn.c_proj.bias"})
    read_tensor(name, {4});
  read_tensor("transformer.h.0.attn.c_attn.bias", {12});
}

BOOST_AUTO_TEST_CASE(both_shapes_are_trained_and_read_again) {
  for (const char* shape : {"llama", "gpt2"}) {
    const Folder folder("llm");
    folder.write("t.txt", fable(60));
    const Words command = with(kTrain, {"--shape", shape, "--epoch-steps", "150"});
    Words once;
    for (std::size_t i = 0; i < command.size(); ++i)
      if (command[i] == "--epoch-steps" && command[i + 1] == "40")
        ++i;
      else
        once.push_back(command[i]);
    const Result r = folder.run(once);
    BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
    const double bits = last_line(r.out)["val_bits_per_byte"].get<double>();
    BOOST_CHECK_LT(bits, 2);
    std::set<std::string> names;
    for (const auto& [name, bytes] : tensors_of(folder.path / "runs/llm/hf/model.safetensors")) names.insert(name);
    const bool is_llama = std::string(shape) == "llama";
    BOOST_CHECK(names.contains(is_llama ? "model.layers.0.self_attn.k_proj.weight F32"
                                        : "transformer.h.0.attn.c_attn.weight F32"));
    BOOST_CHECK_EQUAL(names.size(), is_llama ? 2 + 9 : 4 + 12);
    // The best model, from the run's own folder, generates the same text as from its hf folder.
    const llm::Folder model = llm::open_folder(folder.path / "runs/llm");
    BOOST_CHECK(model.config.architecture == (is_llama ? seppo::Architecture::llama : seppo::Architecture::gpt2));
    const Result text =
        folder.run({"llm", "generate", "--prompt", "A fox", "--temperature", "0", "--max-tokens", "20"});
    BOOST_CHECK_MESSAGE(text.code == 0 && text.out.starts_with("A fox") && text.out.size() > 8, text.out << text.err);
    BOOST_CHECK_EQUAL(folder
                          .run({"llm", "generate", "--model", "runs/llm/hf", "--prompt", "A fox", "--temperature", "0",
                                "--max-tokens", "20"})
                          .out,
                      text.out);
    const auto sampled = [&](const char* seed) {
      return folder
          .run({"llm", "generate", "--prompt", "A", "--seed", seed, "--temperature", "2", "--max-tokens", "30"})
          .out;
    };
    BOOST_CHECK(sampled("1") == sampled("1") && sampled("1") != sampled("2"));
  }
}

BOOST_AUTO_TEST_CASE(finetuning_moves_all_or_adapters_alone) {
  const Folder folder("llm");
  folder.write("t.txt", fable(40));
  BOOST_REQUIRE_EQUAL(folder.run(kTrain).code, 0);
  std::string other;
  for (int i = 0; i < 60; ++i) other += "Deux pigeons s'aimaient d'amour tendre. ";
  folder.write("u.txt", other);
  const auto bits = [&](const Words& model) {
    const Result r = folder.run(with({"llm", "eval", "--data", "u.txt", "--json"}, model));
    BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
    return last_line(r.out)["bits_per_byte"].get<double>();
  };
  const Words tune{"llm", "finetune",      "--model", "runs/llm",     "--data", "u.txt", "--epochs",
                   "1",   "--epoch-steps", "100",     "--log-format", "none",   "--lr",  "0.01"};
  const double before = bits({});
  BOOST_REQUIRE_EQUAL(folder.run(with(tune, {"--out", "full"})).code, 0);
  BOOST_CHECK_LT(bits({"--model", "full"}), before - 1);

  const Result r = folder.run(with(tune, {"--out", "narrow", "--lora", "4"}));
  BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
  const double merged = bits({"--model", "narrow"});
  BOOST_CHECK_LT(merged, before - 0.5);
  BOOST_CHECK_CLOSE(bits({"--adapter", "narrow/adapter"}), merged, 1e-3);
  const Result made = folder.run({"llm", "merge", "--adapter", "narrow/adapter", "--out", "made"});
  BOOST_REQUIRE_MESSAGE(made.code == 0, made.err);
  BOOST_CHECK(tensors_of(folder.path / "made/model.safetensors") ==
              tensors_of(folder.path / "narrow/hf/model.safetensors"));
  // The run's files contain only the adapters.
  const auto run = tensors_of(folder.path / "narrow/model.safetensors"),
             adapter = tensors_of(folder.path / "narrow/adapter/adapter_model.safetensors");
  BOOST_CHECK_EQUAL(adapter.size(), 2 * 7u);  // queries, keys and values apart
  for (const auto& [module, path] :
       {std::pair{"self_attn.o_proj", "self_attn.out_proj"}, std::pair{"mlp.gate_proj", "ffn.gate"},
        std::pair{"mlp.up_proj", "ffn.up"}, std::pair{"mlp.down_proj", "ffn.down"}}) {
    const std::string theirs = std::string("base_model.model.model.layers.0.") + module;
    const std::string ours = std::string("lora.layers.0.") + path;
    BOOST_CHECK(adapter.at(theirs + ".lora_A.weight F32") == run.at(ours + ".a F32"));
    BOOST_CHECK(adapter.at(theirs + ".lora_B.weight F32") == run.at(ours + ".b F32"));
  }
  BOOST_CHECK_EQUAL(run.size(), 2 * 5u);
}

// `llm train --resume` also resumes fine-tuning runs, with bit-identical results.
BOOST_AUTO_TEST_CASE(a_finetuning_that_is_cut_goes_on) {
  const Folder folder("llm");
  folder.write("t.txt", fable(40));
  BOOST_REQUIRE_EQUAL(folder.run(kTrain).code, 0);
  const Words tune{"llm", "finetune",      "--model", "runs/llm",     "--data", "t.txt", "--lora", "2", "--epochs",
                   "2",   "--epoch-steps", "10",      "--log-format", "none",   "--lr",  "0.02"};  // another rate than
                                                                                                   // that of adapters
  BOOST_REQUIRE_EQUAL(folder.run(with(tune, {"--out", "whole", "--max-steps", "20"})).code, 0);
  for (const char* command : {"train", "finetune"}) {
    const std::string out = std::string("cut-") + command;
    BOOST_REQUIRE_EQUAL(folder.run(with(tune, {"--out", out, "--max-steps", "7"})).code, 0);
    const Result r = folder.run({"llm", command, "--resume", out, "--max-steps", "20", "--threads", "2"});
    BOOST_REQUIRE_MESSAGE(r.code == 0, r.err);
    for (const char* file : {"model.safetensors", "adapter/adapter_model.safetensors", "adapter/adapter_config.json",
                             "hf/model.safetensors", "hf/config.json", "hf/vocab.json"})
      BOOST_CHECK_MESSAGE(read(folder.path / "whole" / file) == read(folder.path / out / file), file);
  }
  // Adapters do not go on beside another model.
  BOOST_REQUIRE_EQUAL(folder.run(with(kTrain, {"--overwrite", "--seed", "2"})).code, 0);
  const Result other = folder.run({"llm", "train", "--resume", "cut-train", "--max-steps", "21"});
  BOOST_CHECK_EQUAL(other.code, 1);
  BOOST_CHECK_NE(other.err.find("the frozen values here are not those that it was trained with"), std::string::npos);
}

// Adapters initially add nothing; later they add the product of their matrices.
BOOST_AUTO_TEST_CASE(adapters_add_a_product) {
  seppo::Parameters parameters(1);
  seppo::LanguageModelConfig config{.vocabulary = 11,
                                    .layer = {.d_model = 8, .n_heads = 2, .d_ff = 12, .dropout = 0},
                                    .n_layers = 2,
                                    .max_length = 8};
  seppo::set_architecture(seppo::Architecture::llama, config);
  LanguageModel model(parameters.root(), config);
  const std::size_t all = parameters.count();
  const seppo::Adapters adapters(parameters, model, {.lora = 3, .alpha = 6});
  std::size_t narrow = 0;
  for (const auto& [out, in] : {std::pair(24, 8), {8, 8}, {12, 8}, {12, 8}, {8, 12}})
    narrow += 2 * 3 * static_cast<std::size_t>(out + in);
  BOOST_CHECK_EQUAL(parameters.count(), narrow);  // of the trained parameters only
  BOOST_CHECK_GT(all, 0u);
  seppo::Ragged tokens;
  tokens.add(std::vector<int>{1, 5, 2, 10, 0});
  const auto scores = [&](const LanguageModel& m) {
    const seppo::Inference guard;
    const auto values = m(tokens).values();
    return std::vector<float>(values.begin(), values.end());
  };
  const auto before = scores(model);
  {
    const seppo::Inference guard;
    BOOST_CHECK(scores(adapters.apply()) == before);
  }
  // Set B of one projection, and compute the merged weight expected from it.
  seppo::RandomStream random(1, seppo::Purpose::test);
  for (const auto& entry : parameters.entries())
    if (entry.name.ends_with("ffn.up.b"))
      for (float& x : parameters.edit().subspan(entry.offset, entry.size()))
        x = static_cast<float>(random.uniform()) - 0.5F;
  const auto* a = parameters.find("lora.layers.1.ffn.up.a");
  const auto* b = parameters.find("lora.layers.1.ffn.up.b");
  const auto* w = parameters.find("layers.1.ffn.up.weight");
  BOOST_REQUIRE(a && b && w);
  std::vector<double> expected;
  for (int i = 0; i < 12; ++i)
    for (int j = 0; j < 8; ++j) {
      double value = static_cast<double>(w->tensor.values()[static_cast<std::size_t>(i * 8 + j)]);
      for (int k = 0; k < 3; ++k)
        value += 6.0 / 3 * static_cast<double>(b->tensor.values()[static_cast<std::size_t>(i * 3 + k)]) *
                 static_cast<double>(a->tensor.values()[static_cast<std::size_t>(k * 8 + j)]);
      expected.push_back(value);
    }
  std::vector<float> adapted;
  {
    const seppo::Inference guard;
    adapted = scores(adapters.apply());
  }
  BOOST_CHECK(adapted != before);
  adapters.merge();
  for (std::size_t i = 0; i < expected.size(); ++i)
    BOOST_CHECK_SMALL(static_cast<double>(w->tensor.values()[i]) - expected[i], 1e-6);
  const std::vector<float> merged = scores(model);
  for (std::size_t i = 0; i < merged.size(); ++i)
    BOOST_CHECK_SMALL(static_cast<double>(merged[i]) - static_cast<double>(adapted[i]), 1e-6);
}
