// Continues a text with a pretrained model in Hugging Face's format, GPT-2 or LLaMA: docs/foreign-weights.md
//
//   continue_text DIR "Once upon a time" 40      the folder of the model and its tokenizer, a text, tokens to write
//
// Without arguments it writes a small model that has learned nothing, and reads that.
#include <seppo/models/decoding/generate.h>
#include <seppo/models/hugging_face/pretrained.h>
#include <seppo/nn/text/bos.h>
#include <seppo/nn/text/tokenizer_folder.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include <unistd.h>

using namespace seppo;

// The text, continued with the most probable tokens until the model ends it.
std::string continued(const std::string& folder, const std::string& text, int max_tokens) {
  const Pretrained gpt2 = load_pretrained(folder);
  Tokenizer tokenizer = read_tokenizer(folder);
  tokenizer.fit(gpt2.config.model.vocabulary, folder);

  std::vector<int> tokens = encode(tokenizer, text, Bos::tokenizer, gpt2.config.bos);
  Ragged prompt;
  prompt.add(tokens);
  const auto written = generate(gpt2.model, prompt,
                                {.max_tokens = max_tokens,
                                 .sampling = {.temperature = 0},
                                 .stop = gpt2.config.stops,
                                 .stride = std::max(1, gpt2.config.model.max_length / 2)});
  const std::size_t read = tokens.size();
  tokens.insert(tokens.end(), written[0].begin(), written[0].end());
  return text + tokenizer.decode(tokens, read);
}

// A LLaMA of one layer whose tokens are bytes.
void write_small_model(const std::filesystem::path& folder) {
  HfConfig config{.architecture = Architecture::llama};
  set_architecture(config.architecture, config.model);
  config.model.vocabulary = 257;
  config.model.layer.d_model = 16;
  config.model.layer.n_heads = 2;
  config.model.layer.d_ff = 40;
  config.model.n_layers = 1;
  config.model.max_length = 32;
  config.bos = 256;
  config.stops = {256};
  Parameters parameters(/*seed=*/1);
  const LanguageModel model(parameters.root(), config.model);
  std::filesystem::create_directories(folder);
  write_tokenizer(folder, /*from=*/{}, config.model.max_length);
  save_pretrained(folder, config, parameters);
}

int main(int argc, char** argv) try {
  if (argc == 4) {
    std::cout << continued(argv[1], argv[2], std::atoi(argv[3]));
    return 0;
  }
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("seppo-small-model-" + std::to_string(::getpid()));
  write_small_model(folder);
  const std::string text = continued(folder, "Once upon a time", 8);
  std::filesystem::remove_all(folder);
  std::cout << text.size() << " bytes begin with the prompt\n";
  return text.starts_with("Once upon a time") ? 0 : 1;
} catch (const std::exception& e) {
  std::cerr << e.what() << "\n";
  return 1;
}
