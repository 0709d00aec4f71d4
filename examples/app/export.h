// `PROGRAM export --to onnx`: a trained model as a file that other tools run. A program has the command if
// onnx_graph(model) is declared beside its model.
#pragma once

#include "app/command_line.h"
#include "app/run.h"

#include <seppo/models/onnx/onnx_models.h>

#include <concepts>
#include <filesystem>
#include <string>
#include <vector>

namespace examples {

template <class P>
concept Exports = requires(const typename P::Model& model) {
  { onnx_graph(model) } -> std::same_as<seppo::OnnxGraph>;
};

// --to and --output.
struct ExportOptions {
  std::vector<std::string> formats = {"onnx"};  // that a program can write
  std::string to = "onnx";
  std::filesystem::path output = {};

  void fields(CommandLine& line);
  // The file to write: --output or, in the folder of the model, "model" and the format. Throws UsageError if it cannot
  // be written, or is the model.
  std::filesystem::path file(const std::filesystem::path& model) const;
};

// Writes the graph with the model's configuration, and prints where, and what the graph takes and gives.
void write_onnx(seppo::OnnxGraph graph, const nlohmann::json& config, const std::filesystem::path& file);

template <class P>
requires Exports<P>
int export_model(const Arguments& arguments) {
  const std::string name = P::about().name;
  Trained trained{.program = name};
  ExportOptions options;
  CommandLine line(name + " export [options]",
                   "Writes a saved model as an ONNX graph, which ONNX Runtime and other tools run.");
  trained.fields(line);
  options.fields(line);
  if (!line.parse(arguments)) return 0;
  const std::filesystem::path file = options.file(trained.file());
  const auto saved = trained.load<typename P::Model>();
  write_onnx(onnx_graph(saved.model), saved.config, file);
  return 0;
}

}  // namespace examples
