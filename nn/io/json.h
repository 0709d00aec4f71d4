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

// What a document is made of, as it is read: in time and memory of the text, not of a tree.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual void begin_object() = 0;
  virtual void key(const std::string& key) = 0;
  virtual void end_object() = 0;
  virtual void begin_array() = 0;
  virtual void end_array() = 0;
  virtual void value(nlohmann::json&& value) = 0;  // neither object nor array
  // Ends the reading: must throw. The document breaks a rule of JSON here.
  [[noreturn]] virtual void refuse(const std::string& why) = 0;

  std::size_t offset = 0;  // of the first byte behind what the event is about
};

// Nesting deeper than `depth` is refused.
void read_json(std::string_view text, int depth, JsonEvents& events);

}  // namespace seppo::inline SEPPO_ABI
