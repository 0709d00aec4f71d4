// The parser behind test::Json.
#include "support/json.h"

#include <nlohmann/json.hpp>

#include <fstream>
#include <ostream>

namespace test {

namespace {

using nlohmann::json;

const json& tree_of(const std::shared_ptr<const void>& value) { return *static_cast<const json*>(value.get()); }

}  // namespace

Json Json::parse(const std::string& text) { return Json(std::make_shared<const json>(json::parse(text))); }

bool Json::accepts(const std::string& text) { return json::accept(text); }

Json Json::operator[](std::string_view key) const { return Json({value_, &tree_of(value_).at(std::string(key))}); }

Json Json::operator[](std::size_t index) const { return Json({value_, &tree_of(value_).at(index)}); }

bool Json::contains(const std::string& key) const { return tree_of(value_).contains(key); }

bool Json::is_object() const { return tree_of(value_).is_object(); }

bool Json::is_number() const { return tree_of(value_).is_number(); }

bool Json::is_null() const { return tree_of(value_).is_null(); }

std::size_t Json::size() const { return tree_of(value_).size(); }

std::vector<Json> Json::elements() const {
  std::vector<Json> all;
  for (const json& element : tree_of(value_)) all.push_back(Json({value_, &element}));
  return all;
}

std::vector<std::string> Json::keys() const {
  std::vector<std::string> all;
  for (const auto& [key, value] : tree_of(value_).items()) all.push_back(key);
  return all;
}

std::string Json::dump() const { return tree_of(value_).dump(); }

double Json::number() const { return tree_of(value_).get<double>(); }

bool Json::boolean() const { return tree_of(value_).get<bool>(); }

std::string Json::text() const { return tree_of(value_).get<std::string>(); }

std::vector<double> Json::numbers() const { return tree_of(value_).get<std::vector<double>>(); }

bool operator==(const Json& a, const Json& b) { return tree_of(a.value_) == tree_of(b.value_); }

bool operator==(const Json& a, std::string_view b) { return tree_of(a.value_) == json(b); }

std::ostream& operator<<(std::ostream& out, const Json& value) { return out << tree_of(value.value_); }

std::string indented(const std::string& text) { return nlohmann::ordered_json::parse(text).dump(2); }

Json last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of('\n');
  const std::size_t begin = text.rfind('\n', end);
  return Json::parse(text.substr(begin == std::string::npos ? 0 : begin + 1, end - begin));
}

std::vector<Json> json_lines(const std::filesystem::path& file) {
  std::vector<Json> all;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) all.push_back(Json::parse(line));
  return all;
}

}  // namespace test
