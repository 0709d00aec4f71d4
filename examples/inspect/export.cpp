// Finds out which program a model is of, and becomes that program's own `export`.
#include "inspect/export.h"

#include "app/export.h"
#include "app/paths.h"
#include "inspect/front_door.h"

#include <seppo/autograd/core/printable.h>
#include <seppo/models/hugging_face/config_keys.h>
#include <seppo/nn/io/json.h>
#include <seppo/nn/io/model_file.h>
#include <seppo/nn/io/text_file.h>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace inspect {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// What a file of seppo's says; models of other people are llm's.
std::string program_in(const json& config) {
  const json program = config.is_object() ? config.value("program", json("llm")) : json("llm");
  return program.is_string() ? program.get<std::string>() : "llm";
}

std::string program_of(const fs::path& model) {
  if (fs::is_directory(model)) {
    const fs::path config = model / "config.json";
    if (!fs::exists(config))
      throw examples::UsageError(fmt::format("there is no model in '{}'", seppo::printable_path(model)));
    return program_in(seppo::parse_python_json(seppo::read_text(config), std::string(seppo::printable_path(config))));
  }
  examples::check_input("", model);
  if (model.extension() == ".gguf") return "llm";
  const seppo::SafeTensorsFile file(model);
  const auto found = file.metadata().find(seppo::kConfigKey);
  return found == file.metadata().end() ? "llm" : program_in(seppo::parse_json(found->second, file.name()));
}

}  // namespace

int export_by_its_program(const std::string& argv0, const examples::Arguments& arguments) {
  examples::ExportOptions options{.formats = {"onnx", "gguf"}};
  examples::Arguments models;
  examples::CommandLine line("seppo export MODEL [options]",
                             "Writes a trained model, a folder or a file, for other tools: ONNX Runtime and others, or "
                             "llama.cpp.");
  options.fields(line);
  line.words(&models);
  if (!line.parse(arguments)) return 0;
  if (models.size() != 1)
    throw examples::UsageError(fmt::format("{} models are given; export takes one", models.size()));
  const std::string program = program_of(models[0]);
  const auto listed = listed_programs();
  seppo::check<seppo::FormatError>(std::ranges::any_of(listed, [&](const Listed& p) { return p.name == program; }),
                                   seppo::printable_path(fs::path(models[0])), ": was saved by ",
                                   seppo::printable(program), ", which is no program of seppo's");
  examples::Arguments words{"export", "--model", models[0], "--to", options.to};
  if (!options.output.empty()) words.insert(words.end(), {"--output", options.output.string()});
  become(argv0, program, words);
  throw std::runtime_error(fmt::format("neither {0} nor seppo-{0} is beside this program", program));
}

}  // namespace inspect
