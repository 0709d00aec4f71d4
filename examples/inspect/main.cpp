// seppo: looks into model files and checkpoints, our own and those of other tools, and runs the other programs.
#include "app/command_line.h"
#include "app/paths.h"
#include "app/printable.h"
#include "inspect/export.h"
#include "inspect/front_door.h"
#include "inspect/statistics.h"
#include "inspect/verify.h"

#include <seppo/autograd/core/printable.h>
#include <seppo/nn/io/json.h>
#include <seppo/nn/io/model_file.h>
#include <seppo/nn/io/npy.h>

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <stdexcept>
#include <vector>

namespace inspect {
namespace {

using examples::Arguments;
using examples::CommandLine;
using examples::UsageError;
using nlohmann::json;
using seppo::SafeTensorsFile;
using seppo::TensorInfo;

bool is_optimizers(const TensorInfo& tensor) { return seppo::is_optimizer_state(tensor.name); }

json to_json(const TensorInfo& tensor, const Statistics& s) {
  json all = {{"name", tensor.name}, {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"elements", s.elements}};
  if (has_numbers(tensor.dtype))
    all.update({{"mean", s.mean},
                {"std", s.deviation},
                {"min", s.least},
                {"max", s.most},
                {"zeros", s.zeros},
                {"not_finite", s.not_finite}});
  return all;
}

// The facts that every file has, and those in the metadata of seppo's: {"program": ..., "steps": ..., "run": ...}.
json facts_of(const SafeTensorsFile& file) {
  json facts = {{"bytes", file.size()}, {"digest", file.digest() ? json(*file.digest()) : json()}};
  const auto& metadata = file.metadata();
  if (const auto found = metadata.find(seppo::kConfigKey); found != metadata.end()) {
    const json config = seppo::parse_json(found->second, file.name());
    if (config.is_object() && config.contains("program")) facts["program"] = config["program"];
  }
  if (const auto found = metadata.find("seppo.steps"); found != metadata.end()) facts["steps"] = found->second;
  if (const auto found = metadata.find("seppo.run"); found != metadata.end())
    facts["run"] = seppo::parse_json(found->second, file.name());
  return facts;
}

void print_facts(const json& facts) {
  const auto line = [](const char* name, const std::string& text) {
    std::cout << fmt::format("{:<10} {}\n", name, seppo::printable(text, 200));
  };
  const auto text = [](const json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); };
  line("size", fmt::format("{} bytes", facts["bytes"].get<std::uint64_t>()));
  line("digest", facts["digest"].is_null() ? "none: not written by seppo" : text(facts["digest"]) + ", right");
  if (facts.contains("program")) line("program", text(facts["program"]));
  if (facts.contains("steps")) line("step", text(facts["steps"]) + ": a checkpoint to go on from with --resume");
  if (!facts.contains("run") || !facts["run"].is_object()) return;
  line("data", "digest " + text(facts["run"].value("data", json())));
  const json best = facts["run"].value("best", json());
  if (best.is_array() && best.size() == 3)
    line("best", fmt::format("after step {}: score {}, loss {}", best[0].dump(), best[1].dump(), best[2].dump()));
}

// {"metadata": ..., "config": ...} without the vocabularies, which would fill pages.
json config_of(const SafeTensorsFile& file) {
  json all = {{"metadata", json::object()}};
  for (const auto& [key, value] : file.metadata())
    if (key != seppo::kConfigKey && !key.starts_with("seppo.")) all["metadata"][key] = value;
  if (!file.metadata().contains(seppo::kConfigKey)) return all;
  json config = seppo::read_model_config(file);
  for (const char* key : {"vocabulary", "languages"})
    if (config.contains(key)) config[key] = "not shown";
  all["config"] = std::move(config);
  return all;
}

void print_config(const json& all) {
  for (const auto& [key, value] : all["metadata"].items())
    std::cout << fmt::format("{}: {}\n", seppo::printable(key), seppo::printable(value.get<std::string>(), 400));
  if (all.contains("config")) std::cout << all["config"].dump(2, ' ', true) << "\n";
}

void export_tensor(const SafeTensorsFile& file, const std::string& name, const std::filesystem::path& to) {
  const auto found = std::ranges::find(file.tensors(), name, &TensorInfo::name);
  if (found == file.tensors().end())
    throw UsageError(fmt::format("--tensor: {} has no tensor '{}'", file.name(), seppo::printable(name)));
  const std::string_view type = numpy_type(found->dtype);
  if (type.empty()) throw UsageError(fmt::format("--npy: numpy has no type for {}", found->dtype));
  seppo::write_npy(to, type, found->shape, [&](seppo::File& array) {
    for_each_piece(file, *found, [&](std::span<const std::byte> piece) {
      if (found->dtype != "BF16") return array.write(piece.data(), piece.size());
      const std::vector<double> numbers = numbers_of("BF16", piece);  // NumPy has no bfloat16: the same as float32
      const std::vector<float> wide(numbers.begin(), numbers.end());
      array.write(wide.data(), wide.size() * sizeof(float));
    });
  });
}

// The file itself, or the model in a folder that a program has trained into.
std::filesystem::path model_in(const std::filesystem::path& path) {
  const std::filesystem::path model = path / "model.safetensors";
  std::error_code ignored;
  return std::filesystem::exists(model, ignored) ? model : path;
}

int look(const Arguments& arguments) {
  bool all = false, config = false, as_json = false;
  std::string tensor;
  std::filesystem::path npy;
  Arguments files;
  CommandLine line(
      "seppo inspect FILE [options]",
      "Shows what a safetensors file holds: where it comes from, whether it is undamaged, and its tensors.");
  line("all", all, "list the optimiser's tensors too");
  line("config", config, "print the configuration and other metadata");
  line("tensor", tensor, "the tensor for --npy");
  line("npy", npy, "write --tensor into this file, for numpy");
  line("json", as_json, "print everything as one JSON object");
  line.words(&files);
  if (!line.parse(arguments)) return 0;
  if (files.size() != 1) throw UsageError(fmt::format("{} files are given; inspect takes one", files.size()));
  if (tensor.empty() != npy.empty()) throw UsageError("--tensor and --npy: one needs the other");
  for (const std::string option : {"all", "config", "json"})
    if (!npy.empty() && line.typed(option)) throw UsageError(fmt::format("--{}: cannot be given with --npy", option));
  const std::filesystem::path path = model_in(files[0]);
  examples::check_input("", path);
  if (!npy.empty()) {
    examples::check_output("npy", npy);
    examples::check_distinct("npy", npy, path);
  }

  const SafeTensorsFile file(path);
  file.verify();
  if (!npy.empty()) {
    export_tensor(file, tensor, npy);
    return 0;
  }
  json facts = facts_of(file);
  if (!as_json) print_facts(facts);
  if (config) {
    const json told = config_of(file);
    as_json ? facts.update(told) : print_config(told);
  }
  std::size_t width = std::string_view("tensor").size();
  for (const TensorInfo& t : file.tensors())
    if (all || !is_optimizers(t)) width = std::max(width, std::string(seppo::printable(t.name)).size());
  const auto row = [&](auto... cells) {
    std::cout << fmt::format("{:<{}} {:<5} {:<14} {:>10} {:>9} {:>10} {:>10} {:>8} {:>10}\n", cells...);
  };
  if (!as_json) row("\ntensor", width + 1, "type", "shape", "mean", "std", "min", "max", "zeros", "not finite");
  std::uint64_t parameters = 0, optimizers = 0;
  facts["tensors"] = json::array();
  for (const TensorInfo& t : file.tensors()) {
    const bool is_hidden = is_optimizers(t) && !all;
    if (is_hidden && !as_json) {
      ++optimizers;
      continue;
    }
    const Statistics s = statistics_of(file, t);
    if (!is_optimizers(t)) parameters += s.elements;
    facts["tensors"].push_back(to_json(t, s));
    if (as_json) continue;
    const auto number = [](double x) { return fmt::format("{:.4g}", x); };
    const std::string name(seppo::printable(t.name));
    const std::string shape = fmt::format("[{}]", fmt::join(t.shape, ","));
    if (has_numbers(t.dtype))
      row(name, width, t.dtype, shape, number(s.mean), number(s.deviation), number(s.least), number(s.most), s.zeros,
          s.not_finite);
    else
      row(name, width, t.dtype, shape, "-", "-", "-", "-", "-", "-");
  }
  facts["parameters"] = parameters;
  if (as_json)
    std::cout << facts.dump(-1, ' ', /*ensure_ascii=*/true, json::error_handler_t::replace) << "\n";
  else
    std::cout << fmt::format(
        "\n{} values{}\n", parameters,
        optimizers > 0 ? fmt::format(", and {} tensors of the optimiser (--all)", optimizers) : "");
  return 0;
}

// The programs, for those that become_program() did not find.
std::vector<examples::Command> commands(const std::string& argv0) {
  std::vector<examples::Command> all{{"inspect", "show what a model file or checkpoint holds", look},
                                     {"verify", "say whether files are damaged, and which tensors", verify}};
  all.push_back({"export", "write a trained model for other tools",
                 [argv0](const Arguments& arguments) { return export_by_its_program(argv0, arguments); }});
  for (const Listed& program : listed_programs()) {
    const std::string name = program.name;
    all.push_back({name, program.summary,
                   [name](const Arguments&) -> int {
                     throw std::runtime_error(fmt::format("neither {0} nor seppo-{0} is beside this program", name));
                   },
                   /*is_program=*/true});
  }
  return all;
}

}  // namespace
}  // namespace inspect

int main(int argc, char** argv) {
  inspect::become_program(argv);
  return examples::run_commands(argc, argv,
                                "seppo: looks into model files, and runs the programs: `seppo reverse train --report`.",
                                inspect::commands(argc > 0 ? argv[0] : ""));
}
