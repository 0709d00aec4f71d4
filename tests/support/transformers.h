// Hugging Face's Python packages as oracles, where they are installed: SEPPO_TRANSFORMERS names a Python that has them.
#pragma once

#include "support/program.h"

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <iostream>
#include <string>

namespace test {

struct Transformers {
  std::string python = std::getenv("SEPPO_TRANSFORMERS") ? std::getenv("SEPPO_TRANSFORMERS") : "python3";

  // If not, says that the test is skipped. `packages` may be several: "torch, peft".
  bool are_there(const std::string& packages = "transformers") const {
    const std::string command = python + " -c 'import transformers, " + packages + "' > /dev/null 2>&1";
    if (std::system(command.c_str()) == 0) return true;
    std::cout << "skipped: transformers, " << packages << "; set SEPPO_TRANSFORMERS to a Python that has them\n";
    return false;
  }

  // What a script prints in this folder, as JSON.
  nlohmann::json run(const Folder& folder, const Words& script) const {
    std::string command = "cd '" + folder.path.string() + "' && HF_HUB_OFFLINE=1 " + python;
    for (const std::string& word : script) command += " '" + word + "'";
    command += " > out.json 2> err.txt";
    const int code = std::system(command.c_str());
    BOOST_REQUIRE_MESSAGE(code == 0, read(folder.path / "err.txt"));
    return nlohmann::json::parse(read(folder.path / "out.json"));
  }
};

}  // namespace test
