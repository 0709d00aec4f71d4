// Recipes and defaults are those with which the documented results were measured (defaults.json). Whoever changes one
// must measure again.
// needs: programs: all
#include "support/program.h"

#include <nlohmann/json.hpp>

#include <boost/test/unit_test.hpp>

#include <regex>

using namespace test;
using nlohmann::json;

namespace {

json expected() { return json::parse(read(source_folder() + "/tests/examples/defaults.json")); }

// Maps "--name" to "default" for each option of a help text that has a default.
json defaults_of(const std::string& help) {
  json found = json::object();
  std::istringstream lines(help);
  std::string name, entry;
  const auto end_entry = [&] {
    static const std::regex at_the_end("\\[([^\\]]*)\\] *$");
    if (std::smatch m; !name.empty() && std::regex_search(entry, m, at_the_end)) found[name] = m[1].str();
    name.clear();
  };
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  --")) {
      end_entry();
      name = words(line).at(0);
      entry = line;
    } else if (!line.starts_with("   ")) {
      end_entry();
    } else {
      entry += " " + line.substr(line.find_first_not_of(' '));
    }
  }
  end_entry();
  return found;
}

}  // namespace

BOOST_AUTO_TEST_CASE(trainings_have_their_recipes) {
  const Folder folder;
  folder.write("pairs", "a\tb\nc\td\n");
  folder.write("text", "some text");
  const json recipes = expected()["recipes"];
  BOOST_CHECK_GE(recipes.size(), 13u);
  for (const auto& [command, change] : recipes.items()) {
    std::vector<std::string> line = words(command);
    line.push_back("--dump-config");
    const Result r = folder.run(line);
    BOOST_REQUIRE_MESSAGE(r.code == 0, command << ": " << r.err);
    json recipe = recipes[line[0] + " train" + (line[0] == "charlm" || line[0] == "llm" ? " --data text" : "")];
    recipe.merge_patch(change);  // what a preset changes
    const json said = json::parse(r.out).flatten(), meant = recipe.flatten();
    for (const auto& [key, value] : meant.items())
      BOOST_CHECK_MESSAGE(said.contains(key) && said[key] == value, command << ": " << key << " is not " << value);
  }
}

BOOST_AUTO_TEST_CASE(helps_tell_the_defaults) {
  const Folder folder;
  const json helps = expected()["helps"];
  BOOST_CHECK_GE(helps.size(), 15u);
  for (const auto& [command, defaults] : helps.items()) {
    std::vector<std::string> line = words(command);
    line.push_back("--help-all");
    const json told = defaults_of(folder.run(line).out);
    for (const auto& [name, value] : defaults.items())
      BOOST_CHECK_MESSAGE(told.contains(name) && told[name] == value, command << ": " << name << " is not " << value);
  }
}
