// Untrusted JSON, read strictly: one document with nothing after it, no NUL, no duplicate key, UTF-8, limited nesting.
#pragma once

#include "../../autograd/core/real.h"

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace seppo {
inline namespace SEPPO_ABI {

// Arrays and objects within each other, the outermost included: what is read has at most as many, and what is written
// too, since nlohmann's functions use stack for each.
constexpr int kMostNesting = 16;
bool is_nested_within(const nlohmann::json& value, int levels = kMostNesting);

// Throws FormatError, "NAME:LINE:COLUMN: what is wrong".
nlohmann::json parse_json(std::string_view text, std::string_view name);

// A document in a message: on one line of ASCII, and shortened. Its texts may be other than UTF-8.
std::string printable_json(const nlohmann::json& value);

// A tree whose destruction needs no memory. nlohmann's destructor needs some, and ends the process if there is none.
struct JsonTree {
  nlohmann::json value;
  ~JsonTree() { clear(value); }
  static void clear(nlohmann::json& tree) noexcept;
};

// Receives a document's events as it is read, without building a tree. nlohmann's own functions return true, to go on.
class JsonEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  // Calls the other functions. Throws what refuse() throws.
  void read(std::string_view text);

  virtual void value(nlohmann::json&& value) = 0;  // neither object nor array
  // The document breaks a rule of JSON here: must throw, which ends the reading.
  [[noreturn]] virtual void refuse(const std::string& why) = 0;
  std::size_t offset() const;  // of the first byte after the event's text

  bool pass(nlohmann::json&& passed) {
    value(std::move(passed));
    return true;
  }
  bool null() final { return pass(nullptr); }
  bool boolean(bool value) final { return pass(value); }
  bool number_integer(number_integer_t value) final { return pass(value); }
  bool number_unsigned(number_unsigned_t value) final { return pass(value); }
  bool number_float(number_float_t value, const string_t&) final { return pass(value); }
  bool string(string_t& value) final { return pass(std::move(value)); }
  bool binary(binary_t&) final { return false; }
  bool parse_error(std::size_t at, const std::string&, const nlohmann::json::exception& e) final;

 private:
  std::stringbuf* text_ = nullptr;
  std::size_t error_at_ = 0;
};

}  // namespace SEPPO_ABI
}  // namespace seppo
