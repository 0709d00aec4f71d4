// check_foreign FOLDER: loads the weights that foreign.py wrote there, compares seppo's outputs with PyTorch's, and
// writes the weights back under PyTorch's names.
#include <seppo/nn/io/foreign_weights.h>
#include "modules.h"

#include <seppo/autograd/ops.h>
#include <seppo/models/language_model.h>

#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>

using namespace seppo;
using nlohmann::json;
using oracle::Call;
using oracle::Values;

namespace {

int get(const json& args, const char* key) { return args.at(key).get<int>(); }

std::vector<int> whole(const Tensor& x) { return {x.values().begin(), x.values().end()}; }

std::vector<int> offsets_of(const json& lengths) {
  std::vector<int> offsets{0};
  for (const int length : lengths.get<std::vector<int>>()) offsets.push_back(offsets.back() + length);
  return offsets;
}

Call language_model(const Scope& s, const json& args, const LanguageModelConfig& config) {
  const auto model = std::make_shared<LanguageModel>(s, config);
  const auto offsets = offsets_of(args.at("lengths").at(0));
  return [=](std::span<const Tensor> x) { return (*model)(Ragged{whole(x[0]), offsets}); };
}

LanguageModelConfig config_of(const json& args, int d_model) {
  return {.vocabulary = get(args, "vocabulary"),
          .layer = {.d_model = d_model, .n_heads = get(args, "heads"), .d_ff = get(args, "ff"), .norm = Norm::pre},
          .n_layers = get(args, "layers"),
          .max_length = get(args, "length")};
}

Call make(const std::string& op, const Scope& s, int d_model, const json& args) {
  if (op == "linear") {
    const Linear linear(s, d_model, get(args, "out"));
    return [=](std::span<const Tensor> x) { return linear(x[0]); };
  }
  if (op == "layer_norm") {
    const LayerNorm norm(s, d_model);
    return [=](std::span<const Tensor> x) { return norm(x[0]); };
  }
  if (op == "embedding") {
    const Embedding embedding(s, get(args, "vocabulary"), 8);
    return [=](std::span<const Tensor> x) { return embedding(whole(x[0])); };
  }
  if (op == "gpt2") {
    LanguageModelConfig config = config_of(args, 8);
    config.layer.activation = Activation::gelu_tanh;
    return language_model(s, args, config);
  }
  if (op == "llama") {
    LanguageModelConfig config = config_of(args, get(args, "d_model"));
    config.layer.activation = Activation::swiglu;
    config.layer.bias = false;
    config.layer.norm_kind = NormKind::rms;
    config.layer.n_kv_heads = get(args, "kv_heads");
    config.positions = Positions::rotary_halves;
    config.tie_output = args.at("tied").get<bool>();
    return language_model(s, args, config);
  }
  if (args.contains("norms")) {  // nn.Transformer's default: post-norm layers, and another norm after each stack
    const LayerConfig config{.d_model = d_model, .n_heads = get(args, "heads"), .d_ff = get(args, "ff"), .dropout = 0};
    const auto encoder = std::make_shared<Encoder>(s / "encoder", get(args, "layers"), config);
    const auto decoder = std::make_shared<Decoder>(s / "decoder", get(args, "layers"), config);
    const LayerNorm encoder_norm(s / "encoder" / "norm", d_model), decoder_norm(s / "decoder" / "norm", d_model);
    const auto src = offsets_of(args.at("lengths").at(0)), tgt = offsets_of(args.at("lengths").at(1));
    return [=](std::span<const Tensor> x) {
      return decoder_norm((*decoder)(x[1], tgt, encoder_norm((*encoder)(x[0], src)), src));
    };
  }
  return oracle::make(op, s, d_model, args);
}

WeightOptions options_of(const std::string& op, const json& args) {
  if (op == "gpt2") return seppo::gpt2_weights();
  return op == "llama" ? seppo::llama_weights(get(args, "heads"), get(args, "kv_heads")) : seppo::torch_weights();
}

void check_case(const std::filesystem::path& folder, const json& c) {
  const std::string name = c.at("name").get<std::string>(), op = c.at("op").get<std::string>();
  const Inference inference;
  std::vector<Tensor> inputs;
  for (const json& j : c.at("inputs")) {
    const Values values(j);
    inputs.push_back(tensor(values.shape, values.data));
  }
  Parameters parameters(7);
  const json& args = c.at("args");
  const Call call = make(op, parameters.root(), inputs[0].size(-1), args);
  const WeightOptions options = options_of(op, args);
  load_weights(folder / (name + ".safetensors"), parameters, options);
  oracle::compare("output", call(inputs).values(), Values(c.at("output")).data, 1e-5);
  save_weights(folder / (name + ".back.safetensors"), parameters, options);
}

}  // namespace

int main(int, char** arguments) {
  const std::filesystem::path folder = arguments[1];
  std::ifstream lines(folder / "cases.jsonl");
  int passed = 0, failed = 0;
  for (std::string line; std::getline(lines, line);) {
    const json c = json::parse(line);
    try {
      check_case(folder, c);
      ++passed;
    } catch (const std::exception& e) {
      std::cout << c.at("name") << ": " << e.what() << "\n";
      ++failed;
    }
  }
  std::cout << passed << " models of PyTorch's compute the same here, " << failed << " do not\n";
  return failed > 0 || passed == 0 ? 1 : 0;
}
