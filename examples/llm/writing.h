// How texts are written: the options of the command line, those of generation_config.json, and which of them decide.
#pragma once

#include "app/command_line.h"
#include "llm/folder.h"

#include <seppo/models/decoding/generate.h>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <optional>

namespace llm {

// The options of the command line decide over the file beside the model, and that over the defaults here.
class Writing {
 public:
  void add_to(examples::CommandLine& line);
  // What is used for a prompt of so many tokens.
  seppo::GenerateOptions options(const examples::CommandLine& line, const Folder& folder, std::size_t prompt);
  // {"temperature": {"value": 0.7, "from": "generation_config.json"}, ...}, of what options() returned; "from" may be
  // "command line" and "default" too.
  const nlohmann::json& sources() const { return sources_; }

 private:
  template <class T>
  void settle(const examples::CommandLine& line, const char* option, T& value, const std::optional<T>& in_file);

  seppo::GenerateOptions options_{.max_tokens = 256, .sampling = {.temperature = 0.8}};
  nlohmann::json sources_ = nlohmann::json::object();
};

// Says which keys of the model's generation_config.json are not obeyed, on standard error.
void warn_of_what_is_not_done(const Folder& folder);

}  // namespace llm
