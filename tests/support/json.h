// JSON to look at, without the compile time of a parser's header: what programs print and write. Tests that compose
// JSON include nlohmann's.
#pragma once

#include <concepts>
#include <cstddef>
#include <filesystem>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace test {

// A value, or a part of one that it shares. Never changes.
class Json {
 public:
  static Json parse(const std::string& text);
  static bool accepts(const std::string& text);

  // A missing key, a wrong index and a wrong type throw.
  Json operator[](std::string_view key) const;
  Json operator[](std::size_t index) const;
  bool contains(const std::string& key) const;
  std::size_t size() const;
  bool is_object() const;
  bool is_number() const;
  bool is_null() const;
  std::vector<Json> elements() const;
  std::vector<std::string> keys() const;
  std::string dump() const;

  double number() const;
  bool boolean() const;
  std::string text() const;
  std::vector<double> numbers() const;
  template <class T>
  T get() const {
    if constexpr (std::same_as<T, std::string>)
      return text();
    else if constexpr (std::same_as<T, bool>)
      return boolean();
    else
      return static_cast<T>(number());
  }

  friend bool operator==(const Json& a, const Json& b);  // 1 equals 1.0
  friend bool operator==(const Json& a, std::string_view b);
  template <class T>
  requires std::is_arithmetic_v<T>
  friend bool operator==(const Json& a, T b) {
    if constexpr (std::same_as<T, bool>)
      return a.boolean() == b;
    else
      return a.number() == static_cast<double>(b);
  }
  friend std::ostream& operator<<(std::ostream& out, const Json& value);

 private:
  explicit Json(std::shared_ptr<const void> value) : value_(std::move(value)) {}
  std::shared_ptr<const void> value_;  // a nlohmann::json, within the one that was parsed
};

// The same text with two spaces for each level.
std::string indented(const std::string& text);
// Of the last line.
Json last_line(const std::string& text);
// Of each line of a file, such as metrics.jsonl.
std::vector<Json> json_lines(const std::filesystem::path& file);

}  // namespace test
