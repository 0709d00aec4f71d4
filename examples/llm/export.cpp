// Finds what a GGUF file says of texts in the folder of the model, or in the GGUF file that it was read from.
#include "llm/export.h"

#include "app/export.h"
#include "llm/source.h"

#include <seppo/autograd/core/check.h>
#include <seppo/autograd/core/printable.h>
#include <seppo/models/gguf/gguf_model.h>
#include <seppo/models/onnx/onnx_models.h>
#include <seppo/nn/text/chat_template.h>
#include <seppo/nn/text/gguf_tokenizer.h>
#include <seppo/nn/text/tokenizer_folder.h>

#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

namespace llm {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// The tokens at both ends of a text. A GGUF file has one of each for texts and for what the model generates.
seppo::GgufTexts marks_of(const Folder& folder) {
  const std::vector<int>&before = folder.tokenizer.before, &behind = folder.tokenizer.behind;
  const std::vector<int>& stops = folder.config.stops;
  const bool fits =
      before.size() <= 1 && behind.size() <= 1 && (behind.empty() || stops.empty() || behind[0] == stops[0]);
  seppo::check<seppo::FormatError>(fits, seppo::printable_path(folder.path),
                                   ": a GGUF file cannot say which tokens its texts begin and end with");
  seppo::GgufTexts texts{.bos = folder.config.bos, .adds_bos = !before.empty(), .adds_eos = !behind.empty()};
  if (texts.adds_bos) texts.bos = before[0];
  if (!stops.empty()) {
    texts.eos = stops[0];
    texts.ends.assign(stops.begin() + 1, stops.end());
  }
  if (texts.adds_eos) texts.eos = behind[0];
  return texts;
}

void write_gguf(const Folder& folder, const fs::path& file) {
  seppo::GgufTexts texts = marks_of(folder);
  texts.vocabulary = folder.config.model.vocabulary;
  json tokenizer;
  if (folder.texts.gguf) {
    tokenizer = gguf_tokenizer_json(*folder.texts.gguf);
    texts.chat_template = gguf_chat_template(*folder.texts.gguf);
  } else {
    tokenizer = seppo::tokenizer_folder_json(folder.path);
    const auto source = seppo::read_chat_source(folder.path);
    if (source) texts.chat_template = source->text;
  }
  seppo::GgufBuilder made = seppo::gguf_of(folder.config, *folder.parameters);
  add_gguf_tokenizer(made, tokenizer, texts, std::string(seppo::printable_path(folder.path)));
  made.write(file);
  std::cout << fmt::format("wrote {}\n", seppo::printable_path(file));
}

}  // namespace

int export_model(const examples::Arguments& arguments) {
  Source source;
  examples::ExportOptions options{.formats = {"onnx", "gguf"}};
  examples::CommandLine line("llm export --model DIR [options]",
                             "Writes a model for other tools: as an ONNX graph, which ONNX Runtime and others run, or "
                             "as a GGUF file, for llama.cpp.");
  source.fields(line);
  options.fields(line);
  if (!line.parse(arguments)) return 0;
  const Folder folder = source.open();
  const fs::path file = options.file(folder.path);
  if (options.to == "gguf") {
    write_gguf(folder, file);
  } else {
    examples::write_onnx(onnx_graph(folder.model), {{"program", "llm"}}, file);
  }
  return 0;
}

}  // namespace llm
