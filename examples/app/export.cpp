// Where exported models go, and what is said of them.
#include "app/export.h"

#include "app/paths.h"

#include <seppo/autograd/core/printable.h>

#include <fmt/format.h>

#include <iostream>

namespace examples {

void ExportOptions::fields(CommandLine& line) {
  line("to", to, formats.size() > 1 ? "format of the file" : "format of the file: onnx");
  line("output", output, "the file to write; by default, model.onnx beside the model, and so on");
  line.one_of("to", formats);
}

std::filesystem::path ExportOptions::file(const std::filesystem::path& model) const {
  const std::filesystem::path folder = std::filesystem::is_directory(model) ? model : model.parent_path();
  const std::filesystem::path file = output.empty() ? folder / ("model." + to) : output;
  check_output("output", file);
  check_distinct("output", file, model);
  return file;
}

void write_onnx(seppo::OnnxGraph graph, const nlohmann::json& config, const std::filesystem::path& file) {
  graph.note("seppo.config", config.dump(-1, ' ', /*ensure_ascii=*/true));
  graph.write(file);
  std::cout << fmt::format("wrote {}\n", seppo::printable_path(file)) << graph.signature();
}

}  // namespace examples
