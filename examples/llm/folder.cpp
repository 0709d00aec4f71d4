// Names the option in the library's errors about folders.
#include "llm/folder.h"

#include "app/command_line.h"
#include "app/paths.h"

#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/printable.h>
#include <seppo/models/gguf/gguf_model.h>
#include <seppo/nn/io/replace_folder.h>
#include <seppo/nn/text/gguf_tokenizer.h>
#include <seppo/nn/text/tokenizer_folder.h>

#include <fmt/format.h>

#include <iostream>
#include <utility>

namespace llm {

namespace fs = std::filesystem;
using examples::UsageError;
using seppo::printable_path;

namespace {

// The result of f; what it says of its argument is said of the option.
template <class F>
auto of_option(const std::string& option, const F& f) {
  try {
    return f();
  } catch (const seppo::ArgumentError& e) {
    throw UsageError(fmt::format("--{}: {}", option, e.what()));
  }
}

}  // namespace

seppo::WeightType stored_as(Dtype dtype, seppo::WeightType read) {
  switch (dtype) {
    case Dtype::float32:
      return seppo::WeightType::float32;
    case Dtype::bfloat16:
      return seppo::WeightType::bfloat16;
    case Dtype::float16:
      return seppo::WeightType::float16;
    default:
      return read;
  }
}

std::vector<int> Folder::encode(std::string_view text, seppo::Bos bos, seppo::SpecialText special) const {
  std::size_t left_out = 0;
  const auto encode = [&] { return seppo::encode(tokenizer, text, bos, config.bos, special, &left_out); };
  std::vector<int> tokens = of_option("bos", encode);
  if (left_out > 0)
    std::cerr << fmt::format("warning: {} of {} bytes are no tokens and are left out\n", left_out, text.size());
  return tokens;
}

seppo::Tokenizer read_tokenizer(const std::string& option, const fs::path& folder) {
  return of_option(option, [&] { return seppo::read_tokenizer(folder); });
}

TextFiles::TextFiles(fs::path from) : path(std::move(from)) {
  if (seppo::is_gguf(path)) gguf = std::make_shared<seppo::GgufFile>(path);
}

namespace {

Folder open_gguf(const fs::path& path, std::uint64_t seed) {
  seppo::check<seppo::ArgumentError>(fs::exists(path), "--model: there is no file '", printable_path(path), "'");
  const TextFiles texts(path);
  seppo::Tokenizer tokenizer = seppo::read_gguf_tokenizer(*texts.gguf);
  seppo::Pretrained pretrained = seppo::load_gguf(*texts.gguf, seed);
  tokenizer.fit(pretrained.config.model.vocabulary, std::string(printable_path(path)));
  return {std::move(pretrained), std::move(tokenizer), texts};
}

void write_tokenizer(const fs::path& folder, const TextFiles& from, int max_length) {
  if (from.gguf) {
    seppo::write_gguf_tokenizer(folder, *from.gguf, max_length);
  } else {
    seppo::write_tokenizer(folder, from.path, max_length);
  }
}

}  // namespace

Folder open_folder(const fs::path& given, std::uint64_t seed) {
  if (seppo::is_gguf(given)) return open_gguf(given, seed);
  const seppo::ModelFolder folder = of_option("model", [&] { return seppo::open_model_folder(given); });
  seppo::Tokenizer tokenizer = read_tokenizer("model", folder.path);  // before the weights, which take longer
  seppo::Pretrained pretrained = seppo::load_pretrained(folder, seed);
  tokenizer.fit(pretrained.config.model.vocabulary, std::string(printable_path(folder.path)));
  return {std::move(pretrained), std::move(tokenizer), folder.path};
}

void write_folder(const fs::path& folder, const seppo::HfConfig& config, const seppo::Parameters& parameters,
                  const TextFiles& tokenizer, const seppo::ValuesOf& values, seppo::WeightType type) {
  examples::prepare_folder("out", folder);
  const auto write = [&](const fs::path& made) {
    write_tokenizer(made, tokenizer, config.model.max_length);
    seppo::save_pretrained(made, config, parameters, values, type);
  };
  const auto is_replaced = [](const std::string& name) {
    return seppo::is_model_file(name) || seppo::is_tokenizer_file(name);
  };
  seppo::replace_folder(folder, write, is_replaced);
}

void check_apart(const std::string& option, const fs::path& out, const fs::path& model) {
  std::error_code error;  // one of them may not be there
  const bool is_same = fs::equivalent(out, model, error) || fs::equivalent(out, model / "hf", error) ||
                       fs::equivalent(out / "hf", model, error);
  if (is_same) throw UsageError(fmt::format("--{}: '{}' has the model that is read", option, printable_path(out)));
}

}  // namespace llm
