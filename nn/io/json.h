// JSON from outside, read strictly: one document and nothing behind it, no NUL, no key twice, UTF-8, little nesting.
#pragma once

#include "../../autograd/core/real.h"

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace seppo::inline SEPPO_ABI {

// Throws FormatError, "NAME:LINE:COLUMN: what is wrong".
nlohmann::json parse_json(std::string_view text, std::string_view name);

// A tree that goes without taking memory. Its own destructor takes some, and ends the process if there is none.
struct JsonTree {
  nlohmann::json value;
  ~JsonTree() { clear(value); }
  static void clear(nlohmann::json& tree) noexcept;
};

// What a document is made of, as it is read: in time and memory of the text, not of a tree. start_object, key,
// end_object, start_array and end_array are nlohmann's, and return true.
class JsonEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  // Calls the others. Throws what refuse() does.
  void read(std::string_view text);

  virtual void value(nlohmann::json&& value) = 0;  // neither object nor array
  // Ends the reading: must throw. The document breaks a rule of JSON here.
  [[noreturn]] virtual void refuse(const std::string& why) = 0;
  std::size_t offset() const;  // of the first byte behind what the event is about

  bool pass(nlohmann::json value_) { return value(std::move(value_)), true; }
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

}  // namespace seppo::inline SEPPO_ABI
