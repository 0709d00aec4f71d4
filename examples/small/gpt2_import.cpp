// Reads a GPT-2 with Hugging Face's names, scores a text of token ids and continues it: docs/foreign-weights.md
//
//   gpt2_import model.safetensors 12 464 3290 318      12 heads; the file determines the rest
//
// Without arguments it writes a small model under these names, and reads that.
#include <seppo/models/decoding/generate.h>
#include <seppo/nn/io/checkpoint.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace seppo;

// Our names and Hugging Face's.
constexpr std::pair<std::string_view, std::string_view> kNames[] = {{"embedding.", "wte."},
                                                                    {"positions.", "wpe."},
                                                                    {"layers.norm.", "ln_f."},
                                                                    {"layers.", "h."},
                                                                    {"norm1.", "ln_1."},
                                                                    {"norm2.", "ln_2."},
                                                                    {"self_attn.in_proj.", "attn.c_attn."},
                                                                    {"self_attn.out_proj.", "attn.c_proj."},
                                                                    {"ffn.up.", "mlp.c_fc."},
                                                                    {"ffn.down.", "mlp.c_proj."}};

WeightOptions weights_of_gpt2(const std::string& prefix = "") {
  const auto rename = [=](std::string name) {
    for (const auto& [ours, theirs] : kNames)
      if (const std::size_t at = name.find(ours); at != name.npos) name.replace(at, ours.size(), theirs);
    return std::vector{prefix + name};
  };
  return {.rename = rename,
          .transpose = [](const std::string& name) { return name.starts_with("layers."); },
          .skip = [](const std::string& name) { return name.ends_with(".attn.bias"); }};  // masks
}

LanguageModelConfig gpt2_config(int vocabulary, int max_length, int d_model, int n_heads, int n_layers) {
  return {.vocabulary = vocabulary,
          .layer = {.d_model = d_model,
                    .n_heads = n_heads,
                    .d_ff = 4 * d_model,
                    .dropout = 0.1,
                    .attention_dropout = 0.1,
                    .norm = Norm::pre,
                    .activation = Activation::gelu_tanh,
                    .bias = true},
          .n_layers = n_layers,
          .max_length = max_length};
}

// The config that the shapes of the file's tensors imply.
LanguageModelConfig config_of(const SafeTensorsFile& file, const std::string& prefix, int n_heads) {
  int vocabulary = 0, max_length = 0, d_model = 0, n_layers = 0;
  for (const TensorInfo& tensor : file.tensors()) {
    if (tensor.name == prefix + "wte.weight" && tensor.shape.size() == 2) {
      vocabulary = static_cast<int>(tensor.shape[0]);
      d_model = static_cast<int>(tensor.shape[1]);
    }
    if (tensor.name == prefix + "wpe.weight" && !tensor.shape.empty()) max_length = static_cast<int>(tensor.shape[0]);
    n_layers += tensor.name.ends_with(".ln_1.weight");
  }
  return gpt2_config(vocabulary, max_length, d_model, n_heads, n_layers);
}

void run(const std::string& path, int n_heads, const std::vector<int>& text) {
  const SafeTensorsFile file(path);
  const bool has_prefix = std::ranges::any_of(
      file.tensors(), [](const TensorInfo& tensor) { return tensor.name.starts_with("transformer."); });
  const std::string prefix = has_prefix ? "transformer." : "";
  Parameters parameters(/*seed=*/0, /*most=*/file.size());  // a small file cannot claim a large model
  const LanguageModel model(parameters.root(), config_of(file, prefix, n_heads));
  load_weights(path, parameters, weights_of_gpt2(prefix));

  const Ragged prompt{text, {0, static_cast<int>(text.size())}};
  std::cout << std::setprecision(9) << "parameters " << parameters.count() << "\nlogits";
  {
    const Inference inference;
    const Tensor logits = model(prompt);  // [tokens, vocabulary]
    const int last = logits.size(0) - 1;
    for (int i = 0; i < std::min(8, logits.size(1)); ++i) std::cout << " " << logits.at(last, i);
    if (text.size() > 1) {
      const std::vector<int> next(text.begin() + 1, text.end());
      std::cout << "\nloss " << cross_entropy(slice(logits, 0, 0, last), next).item();
    }
  }
  std::cout << "\ncontinuation";
  const auto texts = generate(model, prompt, {.max_tokens = 5, .sampling = {.temperature = 0}});
  for (const int token : texts[0]) std::cout << " " << token;
  std::cout << "\n";
}

int main(int argc, char** argv) {
  try {
    std::vector<int> numbers;
    bool are_numbers = true;
    for (int i = 2; i < argc; ++i) {
      const std::string_view word = argv[i];
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), numbers.emplace_back());
      are_numbers &= error == std::errc() && end == word.data() + word.size();
    }
    if (argc > 1 && (argc < 4 || numbers[0] < 1 || !are_numbers)) {
      std::cerr << "gpt2_import: expected FILE HEADS TOKEN..., or nothing\n";
      return 2;
    }
    if (argc > 1) {
      run(argv[1], numbers[0], {numbers.begin() + 1, numbers.end()});
      return 0;
    }
    const std::string path = "gpt2-small.safetensors";
    Parameters parameters(/*seed=*/1);
    const LanguageModel model(parameters.root(), gpt2_config(50, 16, 32, 4, 2));
    save_weights(path, parameters, weights_of_gpt2());
    run(path, 4, {4, 8, 15, 16, 23, 42});
    std::filesystem::remove(path);
  } catch (const FileError& e) {
    std::cerr << "gpt2_import: " << e.what() << "\n";
    return 74;
  } catch (const std::exception& e) {
    std::cerr << "gpt2_import: " << e.what() << "\n";
    return 1;
  }
}
